"""What must never stand in a log."""

import logging
import re

_SECRET_PATHS = re.compile(r"(/(?:r|join|setup)/)[^\s/\"'?]+")


def mask(text: str) -> str:
    """The text with the token of every link path replaced by `…`: a log line must not be usable as a key (LK-12)."""
    return _SECRET_PATHS.sub(r"\1…", text)


class MaskTokens(logging.Filter):
    """Masks link tokens in every record that passes, arguments included."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        masked = mask(text)
        if masked != text:
            record.msg, record.args = masked, None
        return True
