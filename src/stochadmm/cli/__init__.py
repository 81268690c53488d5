"""The ``stochadmm`` command; its entry point is :func:`stochadmm.cli.main.main`."""
