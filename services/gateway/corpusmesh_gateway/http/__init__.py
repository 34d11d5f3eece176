"""HTTP/JSON for every call, transcoded from the contract's `google.api.http` options."""
