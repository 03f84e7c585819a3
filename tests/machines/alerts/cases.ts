import type { AlertName } from '../../../src/machines/alerts/rules.ts'
import type { Samples } from '../../support/alerts/samples.ts'

/** What happens, a sample a minute, and the minutes at which one reads what each rule makes of it. */
export interface AlertCase {
  readonly samples: readonly Samples[]
  /** By rule: for each minute that is looked at, the summaries of what fires. */
  readonly fires: Readonly<Partial<Record<AlertName, Readonly<Record<number, readonly string[]>>>>>
}

const chat = 'route="/v1/api/chat/completions"'
const bucket = (model: string, le: string, values: string): Samples => ({
  series: `gen_ai_server_time_to_first_token_seconds_bucket{gen_ai_request_model="${model}",le="${le}",node="n"}`,
  values,
})

/** Every rule once above what it allows, and next to it something that it allows. The sums stand beside them. */
export const alertCases: readonly AlertCase[] = [
  {
    samples: [
      { series: 'up{job="penstock",instance="a"}', values: '1 0x120' },
      { series: 'svc_nodes{state="offline"}', values: '2x120' },
      { series: 'svc_nodes{state="draining"}', values: '3x120' },
      // 10 of 70 a minute: 14.29 %.
      { series: `svc_http_requests_total{${chat},status="200"}`, values: '0+60x120' },
      { series: `svc_http_requests_total{${chat},status="502"}`, values: '0+10x120' },
      // What operators read hides nothing.
      { series: 'svc_http_requests_total{route="/v1/admin/nodes",status="200"}', values: '0+900x120' },
      // 14 failures beside 70 requests.
      { series: 'svc_upstream_failures_total{code="upstream_error"}', values: '0+14x120' },
      // The queue is empty once in the first half hour, and from minute 30 on it is not.
      { series: 'svc_requests_queued', values: '3x19 0 3x100' },
      { series: 'svc_receipts_dropped_total{instance="a"}', values: '0x4 7x116' },
      { series: 'svc_receipts_forged_total{instance="a"}', values: '0x4 1x116' },
      { series: 'svc_log_stopped{instance="a"}', values: '0x5 1x115' },
      { series: 'svc_ledger_books_broken_rules{instance="a"}', values: '0x5 2x115' },
      { series: 'svc_ledger_books_broken_rules{instance="b"}', values: '0x5 1x115' },
      { series: 'svc_node_usage_claims_at_bound{instance="a",node="desk"}', values: '5x5 6x115' },
      { series: 'svc_node_usage_claims_at_bound{instance="a",node="shed"}', values: '5x121' },
      { series: 'svc_audit_access_events_refused_total{instance="a"}', values: '0x4 7x116' },
      { series: 'svc_audit_head_lost{instance="a"}', values: '0x5 1x115' },
    ],
    fires: {
      PenstockDown: { 0: [], 1: [], 2: ['a does not answer'] },
      PenstockNoReadyNode: { 1: [], 2: ['No node takes work'] },
      PenstockNodesAway: { 9: [], 10: ['Nodes offline: 2'] },
      PenstockErrors: { 5: [], 6: ['14.29% of the inference requests end with a 5xx'] },
      PenstockNodeCallsFail: {
        10: [],
        11: ['20% as many failed calls to nodes as inference requests; failover may still hide them'],
      },
      PenstockFull: { 20: [] },
      PenstockQueue: { 20: [], 29: [], 32: ['Requests have waited for a free slot for 10 minutes'] },
      PenstockReceiptsLost: { 4: [], 7: ['a lost receipts: its database is or was away'], 25: [] },
      PenstockReceiptForged: { 4: [], 7: ['a kept receipts out of the public log that no gateway issued'], 25: [] },
      PenstockLogStopped: { 5: [], 6: ['a adds nothing to the public log'] },
      PenstockBooksBroken: { 5: [], 6: ['The books break 2 of their rules'] },
      PenstockClaimsAtBound: {
        5: [],
        6: ['desk claims as much usage as could still be true, in 6 of its last 100 paid calls'],
      },
      PenstockAuditLost: { 4: [], 7: ['a lost access events of the audit: its database is or was away'], 25: [] },
      PenstockAuditHeadLost: {
        5: [],
        6: ['a: the newest rows of its audit are gone from the database; actions are refused'],
      },
    },
  },
  {
    samples: [
      { series: 'svc_nodes{state="asleep"}', values: '1x120' },
      { series: 'svc_http_requests_total{route="/v1/api/messages",status="200"}', values: '0+40x120' },
      // 10 a minute: 0.17 a second.
      { series: 'svc_http_requests_total{route="/api/chat",status="429"}', values: '0+10x120' },
      { series: 'svc_http_requests_total{route="/v1/admin/nodes",status="429"}', values: '0+900x120' },
      { series: 'svc_http_requests_total{route="/v1/admin/nodes",status="401"}', values: '0+90x120' },
      { series: 'svc_model_loads_total{model="m",node="n"}', values: '0+1x120' },
      // Two processes see the same loads.
      { series: 'svc_model_loads_total{model="k",node="n",process="1"}', values: '0x30 12x90' },
      { series: 'svc_model_loads_total{model="k",node="n",process="2"}', values: '0x30 12x90' },
      { series: 'svc_mixture_total{outcome="quorum_not_met",strategy="vote"}', values: '0+1x120' },
      { series: 'svc_mixture_total{outcome="failed",strategy="vote"}', values: '0+1x120' },
      { series: 'svc_mixture_total{outcome="succeeded",strategy="weighted"}', values: '0+9x120' },
      { series: 'svc_webhook_attempts_total{result="delivered"}', values: '0+1x120' },
      { series: 'svc_webhook_attempts_total{result="retry_scheduled"}', values: '0+2x120' },
      { series: 'svc_webhook_attempts_total{result="failed"}', values: '0+1x120' },
      { series: 'svc_tunnel_hellos_refused_total{code="signature_expired"}', values: '0+2x120' },
      { series: 'svc_tunnel_hellos_refused_total{code="nonce_reused"}', values: '0x10 1x110' },
      { series: 'svc_tunnel_hellos_refused_total{code="stopping"}', values: '0+9x120' },
      { series: 'process_start_time_seconds{job="penstock",instance="a"}', values: '1x9 2x9 3x9 4x90' },
      { series: 'process_start_time_seconds{job="penstock",instance="b"}', values: '1x9 2x9 3x99' },
      { series: 'svc_memory_kept_bytes{instance="a"}', values: '90x19 10 90x100' },
      { series: 'svc_memory_kept_bytes{instance="b"}', values: '90x120' },
      { series: 'svc_memory_kept_bytes_max{instance="a"}', values: '100x120' },
      { series: 'svc_memory_kept_bytes_max{instance="b"}', values: '200x120' },
      { series: 'svc_memory_refusals_total{kind="refused"}', values: '0+2x120' },
      { series: 'svc_memory_refusals_total{kind="ended"}', values: '0x10 1x110' },
      { series: 'process_open_fds{job="penstock",instance="a"}', values: '50001x120' },
      { series: 'process_open_fds{job="penstock",instance="b"}', values: '50000x120' },
      { series: 'svc_trace_spans_dropped_total{instance="a"}', values: '0+3x120' },
      // Of slow: half within 5 s, the rest within 10 s, so that 95 of 100 lie below 5 + 5 × 45/50 = 9.5 s.
      bucket('slow', '5', '0+5x120'),
      bucket('slow', '10', '0+10x120'),
      bucket('slow', '+Inf', '0+10x120'),
      bucket('quick', '5', '0+10x120'),
      bucket('quick', '10', '0+10x120'),
      bucket('quick', '+Inf', '0+10x120'),
    ],
    fires: {
      PenstockNoReadyNode: { 30: [] },
      PenstockNodesAway: { 30: [] },
      // More than 30 within 5 minutes, from minute 4 on.
      PenstockFull: { 13: [], 14: ['Inference is refused with 429: nodes are full, or an account is at its limit'] },
      PenstockThrashing: { 70: ['n loaded m 60 times within an hour'], 100: ['n loaded m 60 times within an hour'] },
      PenstockSlowFirstToken: { 10: [], 11: ['slow: one first token in 20 takes more than 9.5s'] },
      // More than 9 within 15 minutes, from minute 5 on.
      PenstockMixturesFail: { 19: [], 20: ['Mixtures (vote) get too few answers'] },
      PenstockWebhooksFail: { 15: [], 16: ['75% of the attempts to deliver a webhook fail'] },
      PenstockTunnelsRefused: { 40: ['Nodes that dial in are refused: signature_expired'] },
      // More than 300 within 5 minutes, from minute 4 on.
      PenstockGuessing: { 8: [], 9: ['Somebody sends wrong credentials, 1.5 a second'] },
      PenstockRestarts: { 29: [], 30: ['a starts again and again'], 60: [] },
      PenstockMemoryFull: { 20: [], 32: ['a: answers and forms have filled the memory for them for 10 minutes'] },
      PenstockMemoryRefused: { 40: ['30 requests were refused for memory within 15 minutes'] },
      PenstockDescriptors: { 4: [], 5: ['a nears its limit of open connections (LimitNOFILE=65536)'] },
      PenstockTracesLost: { 15: [], 16: ['The collector of traces does not take all of them'] },
      PenstockErrors: { 30: [] },
    },
  },
]
