"""python -m mlcl.cli, where the package runs from its source tree."""

from mlcl.cli import main

if __name__ == "__main__":
    main()
