"""Asks a language model for what builds are made of: budgeted, kept, checked, and left alone where it is away."""

from corpusmesh_runtime.model_calls.budget import TENANT_BUDGET_SPENT, Spent
from corpusmesh_runtime.model_calls.desk import DeskSettings, ModelDesk
from corpusmesh_runtime.model_calls.orders import MISCONFIGURED, UNREACHABLE, UNUSABLE, CallOrder, Reply
from corpusmesh_runtime.model_calls.session import (
    MODEL_MISCONFIGURED,
    MODEL_NOT_CONFIGURED,
    MODEL_UNREACHABLE,
    CallScope,
    CallSession,
)

__all__ = [
    "MISCONFIGURED",
    "MODEL_MISCONFIGURED",
    "MODEL_NOT_CONFIGURED",
    "MODEL_UNREACHABLE",
    "TENANT_BUDGET_SPENT",
    "UNREACHABLE",
    "UNUSABLE",
    "CallOrder",
    "CallScope",
    "CallSession",
    "DeskSettings",
    "ModelDesk",
    "Reply",
    "Spent",
]
