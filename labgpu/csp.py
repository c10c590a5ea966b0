"""The content security policy of every answer: django-csp's, written out once (docs/adr/0014)."""

from __future__ import annotations

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.http import HttpRequest, HttpResponseBase
from django.utils.functional import cached_property


class PolicyHeader(CSPMiddleware):
    """django-csp's middleware, which puts the same policy together anew for each answer.

    An answer whose view changed its policy (`csp.decorators`), or whose page took a nonce, goes django-csp's own way.
    """

    @cached_property
    def _plain(self) -> str:
        return build_policy()

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if hasattr(request, "_csp_nonce") or any(name.startswith("_csp") for name in vars(response)):
            return super().process_response(request, response)
        response.headers.setdefault(HEADER, self._plain)
        return response
