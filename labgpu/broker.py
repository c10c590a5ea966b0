"""What the server's and the card hosts' Celery applications share. Imports neither Django nor Celery."""

from typing import Any

SERVER_QUEUE = "server"
READ_TASK = "labgpu.read_cards"
INGEST_TASK = "monitoring.ingest"


def host_queue(host: str) -> str:
    """The queue that only the worker on this host consumes."""
    return f"gpu.{host}"


# Visibility timeout > longest task; the restore interval makes a killed worker's task come back soon after it
# (measured: with the defaults nothing came back within 60 s). Results are never read, so never stored (BG-13).
BROKER_OPTIONS: dict[str, Any] = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    # No task outlives the visibility timeout: one that did would run twice.
    "task_soft_time_limit": 240,
    "task_time_limit": 300,
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "task_serializer": "json",
    "accept_content": ["json"],
    "broker_connection_retry_on_startup": True,
    "broker_transport_options": {
        "visibility_timeout": 600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
    },
    # A card host has the broker's address: nobody there may tell the server's worker to stop or to leave its queue.
    "worker_enable_remote_control": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
}
