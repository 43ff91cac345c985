"""ONNX models of trees; see `model` for what is read and how."""

from carvegbm.readers.onnx.model import from_bytes, from_model, is_model

__all__ = ["from_bytes", "from_model", "is_model"]
