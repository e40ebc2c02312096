from lensproof.cli import main

main()
