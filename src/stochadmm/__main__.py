"""``python -m stochadmm``: the command line."""

from stochadmm.cli.main import main

if __name__ == "__main__":
    main()
