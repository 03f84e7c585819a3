import { metricPrefix } from '../../brand.ts'
import { minuteMs } from '../../time.ts'
import { increase, lowest, max, newest, orZero, quantile, rate, ratio, sum } from './expression.ts'
import { rule } from './rule.ts'

const requests = `${metricPrefix}http_requests_total`
/** The routes of inference, OpenAI's, Anthropic's and Ollama's. */
const inference = [
  'route',
  '=~',
  '/v1/api/(chat/completions|completions|embeddings|messages|responses|rerank|audio/.+|images/.+)|/api/(chat|generate|embed|embeddings)',
] as const

/** Nodes, requests and models. */
export const servingRules = [
  rule('PenstockDown', {
    severity: 'critical',
    condition: { of: newest('up', ['job', '=', 'penstock']), is: '==', than: 0 },
    forMs: minuteMs,
    summary: '{instance} does not answer',
    when: 'A gateway has not answered its scrape for 1 min',
    mends: '`systemctl status penstock`, the last lines of its log. With the embedded database a full disk ends both',
    outside:
      'A gateway that does not answer cannot say so. Prometheus, or another program on another computer, sees it.',
  }),
  rule('PenstockNoReadyNode', {
    severity: 'critical',
    condition: {
      of: orZero(sum(newest(`${metricPrefix}nodes`, ['state', '=~', 'ready|asleep']))),
      is: '==',
      than: 0,
    },
    forMs: 2 * minuteMs,
    summary: 'No node takes work',
    when: 'No node takes work for 2 min, and none sleeps',
    mends:
      '`./penstock nodes list`; `nodes show NODE_ID` has the last error of a poll or a call, until the node has been well for 5 minutes',
  }),
  rule('PenstockNodesAway', {
    severity: 'warning',
    condition: { of: max(newest(`${metricPrefix}nodes`, ['state', '=~', 'stale|offline']), 'state'), is: '>', than: 0 },
    forMs: 10 * minuteMs,
    summary: 'Nodes {state}: {value}',
    when: 'Nodes are stale or offline for 10 min',
    mends: 'The node and its network; drain or revoke it when it stays away',
  }),
  rule('PenstockErrors', {
    severity: 'critical',
    condition: {
      of: ratio(sum(rate(5, requests, inference, ['status', '=~', '5..'])), sum(rate(5, requests, inference))),
      is: '>',
      than: 0.05,
    },
    forMs: 5 * minuteMs,
    summary: '{value|percent} of the inference requests end with a 5xx',
    when: '5xx are more than 5 % of the inference requests for 5 min',
    mends:
      'Which `code` in the log; `upstream_…` and `no_route_available` point to the nodes, `service_unavailable` to the database; `internal_error` is a fault of Penstock: please report it',
  }),
  rule('PenstockNodeCallsFail', {
    severity: 'warning',
    condition: {
      of: ratio(sum(rate(5, `${metricPrefix}upstream_failures_total`)), sum(rate(5, requests, inference))),
      is: '>',
      than: 0.1,
    },
    forMs: 10 * minuteMs,
    summary: '{value|percent} as many failed calls to nodes as inference requests; failover may still hide them',
    when: 'Failed calls to nodes are more than 10 % of the inference requests, of whatever operation, for 10 min',
    mends: 'The label `code`; clients may see nothing of it, as long as another node answers',
  }),
  rule('PenstockFull', {
    severity: 'warning',
    condition: { of: sum(rate(5, requests, inference, ['status', '=', '429'])), is: '>', than: 0.1 },
    forMs: 10 * minuteMs,
    summary: 'Inference is refused with 429: nodes are full, or an account is at its limit',
    when: 'More than 6 inference requests a minute are refused with 429, for 10 min',
    mends:
      "`capacity_exhausted` in the log: more nodes or slots, or a longer `SVC_QUEUE_WAIT_MS`. `rate_limited`, `concurrency_limited`, `daily_token_quota_exceeded`: an account's own limit; see `PenstockMemoryRefused` for `rate_limited`",
  }),
  rule('PenstockQueue', {
    severity: 'warning',
    condition: { of: lowest(10, 30, sum(newest(`${metricPrefix}requests_queued`))), is: '>', than: 0 },
    summary: 'Requests have waited for a free slot for 10 minutes',
    when: 'Requests have waited without a pause for 10 min',
    mends: 'The same, earlier',
  }),
  rule('PenstockThrashing', {
    severity: 'warning',
    condition: {
      of: max(increase(60, `${metricPrefix}model_loads_total`), 'model', 'node'),
      is: '>',
      than: 12,
    },
    forMs: 15 * minuteMs,
    summary: '{node} loaded {model} {value|number} times within an hour',
    when: 'A node loaded the same model more than 12 times within an hour, for 15 min',
    mends:
      'Models that take turns in one memory: give one of them to another node, or the node more memory; `./penstock models list` shows where each is',
  }),
  rule('PenstockSlowFirstToken', {
    severity: 'warning',
    condition: {
      of: quantile(
        0.95,
        sum(rate(10, 'gen_ai_server_time_to_first_token_seconds_bucket'), 'le', 'gen_ai_request_model'),
      ),
      is: '>',
      than: 5,
    },
    forMs: 10 * minuteMs,
    summary: '{gen_ai_request_model}: one first token in 20 takes more than {value|duration}',
    when: 'p95 of the first token above 5 s for 10 min',
    mends: 'A model that is loaded anew for each request, prompts that grew, a node that swaps',
  }),
  rule('PenstockMixturesFail', {
    severity: 'warning',
    condition: {
      of: sum(rate(15, `${metricPrefix}mixture_total`, ['outcome', '=~', 'quorum_not_met|failed']), 'strategy'),
      is: '>',
      than: 0.01,
    },
    forMs: 15 * minuteMs,
    summary: 'Mixtures ({strategy}) get too few answers',
    when: 'More than 9 mixtures of one strategy within 15 min miss their quorum or fail, for 15 min',
    mends: '`GET /v1/admin/mixtures` says which expert failed',
  }),
] as const
