import type { HelpFamily } from './error-help.ts'

export const helpServing = {
  title: 'Models, nodes and limits',
  codes: {
    model_not_found: {
      means: 'No model has this name among those that you may use.',
      next: 'Take a name from `GET /v1/models`. The message names one that is spelt alike, if there is one.',
    },
    runtime_not_found: {
      means: 'The agent has no model server with this `runtime_id`.',
      next: 'Leave `runtime_id` out.',
    },
    runtime_unavailable: {
      means: 'The model server on this computer cannot answer now.',
      next: 'Check that the model server runs, and try again.',
    },
    rate_limited: {
      means:
        'Too many requests came in a short time, from this account, token or address; or the answers of this account that are under way fill its share of the memory.',
      next: 'Wait for the time in `Retry-After`. The headers `RateLimit` name the limit and say what is left.',
    },
    concurrency_limited: {
      means:
        'The account has as many requests under way as its policy allows, or the token as many consoles open as one may.',
      next: 'Wait until one of them has ended, or ask the operator for a higher `max_concurrency`; close a console that you no longer need.',
    },
    capacity_exhausted: {
      means: 'All nodes that serve this model stayed full while the request waited.',
      next: 'Try again after the time in `Retry-After`, or add a node.',
    },
    daily_token_quota_exceeded: {
      means: 'The account has used all the tokens of this day.',
      next: 'Wait until 00:00 UTC (`Retry-After` has the seconds), or ask the operator for a higher quota.',
    },
    model_loading: {
      means: 'The model was not in memory, and loading it took longer than the request waited.',
      next: 'Try again after the time in `Retry-After`: the load goes on.',
    },
    node_asleep: {
      means: 'Only sleeping computers have the model, and none of them was woken: the message says why.',
      next: 'Wake the computer, then try again. An operator lets requests do it: with `allow_wake` in the policy, `wake_hours` of the node, and its hardware address.',
    },
    no_route_available: {
      means: 'The model is known, and no node can serve it now.',
      next: 'Check that a node with the model is running. An operator sees the reason in the console, or with `./penstock explain REQUEST_ID`.',
    },
    node_unavailable: {
      means: 'The node to which the request is sealed did not begin to answer. Nobody but it could read the request.',
      next: 'Seal the request for another node, as `./penstock seal` does by itself, or try again.',
    },
    upstream_error: {
      means: 'A node failed before it answered, and no other node could take over.',
      next: 'Try again. If it happens often, an operator finds the node in the console.',
    },
    upstream_timeout: {
      means: 'A node did not begin its answer in time.',
      next: 'Try again, or use streaming for long answers.',
    },
    stream_idle_timeout: {
      means: 'A node stopped sending in the middle of a stream.',
      next: 'Ask again from the start: what came before is all that will come.',
    },
    node_lost: {
      means: 'The gateway lost the node in the middle of an answer.',
      next: 'Ask again from the start.',
    },
    server_shutdown: {
      means: 'The gateway is shutting down.',
      next: 'Ask again: another process or the new start answers.',
    },
    service_unavailable: {
      means:
        'The gateway cannot serve the request now: its database is away, it has too many connections, or it is stopping.',
      next: 'Try again after the time in `Retry-After`. `GET /readyz` says what is missing.',
    },
    internal_error: {
      means: 'The gateway has a fault of its own.',
      next: 'Report it with the `request_id`. The log of the gateway has a line with the same id.',
    },
  },
} as const satisfies HelpFamily

export const helpMixtures = {
  title: 'Mixtures',
  codes: {
    mixture_invalid: {
      means: '`svc.mixture` has a field that is missing, unknown or out of its range.',
      next: 'The message names the field and what it must be. `docs/mixtures.md` has examples.',
    },
    mixture_strategy_reserved: {
      means: 'The strategy has a name that is reserved for a later version.',
      next: 'Use `synthesize`, `vote` or `weighted`.',
    },
    mixture_too_many_experts: {
      means: 'The mixture has more experts than the gateway or the policy allows.',
      next: 'Remove some. The message has both numbers.',
    },
    mixture_expert_field_forbidden: {
      means: 'An expert or the aggregator names a node.',
      next: 'Remove `node_id`, `route` or `hostname`: the gateway chooses the nodes of a mixture.',
    },
    mixture_pin_conflict: {
      means: 'The request has a mixture and a pinned node.',
      next: 'Remove one of them.',
    },
    mixture_unsupported_path: {
      means: 'This route or `dispatch_mode` has no mixtures.',
      next: 'Send the mixture to chat, Responses or Messages, without `svc.dispatch_mode`.',
    },
    mixture_token_budget_exceeded: {
      means: 'All sub-calls together could use more tokens than a mixture may.',
      next: 'Send a smaller `max_tokens`, a shorter prompt or fewer experts. The message has both numbers.',
    },
    mixture_not_allowed: {
      means: 'The policy of the key or its account switches mixtures off.',
      next: 'Ask the operator, or send a request with one model.',
    },
    mixture_quorum_not_met: {
      means: 'Fewer experts answered than `min_experts` asks for. `error.svc.mixture` says what became of each.',
      next: 'Check the nodes of the experts that failed, or lower `min_experts`. A repetition asks every expert again.',
    },
  },
} as const satisfies HelpFamily
