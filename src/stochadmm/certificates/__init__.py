"""Certificates of optimality: duality gaps, or the KKT residual where no conjugate exists."""

from ._certify import Certificate, certify, has_certificate

__all__ = ["Certificate", "certify", "has_certificate"]
