import { metricPrefix } from '../../brand.ts'
import { minuteMs } from '../../time.ts'
import { changes, increase, lowest, max, newest, rate, ratio, sum } from './expression.ts'
import { rule } from './rule.ts'

const grew = (minutes: number, metric: string) => increase(minutes, metricPrefix + metric)

/** Records, the audit, deliveries, and the process itself. */
export const keepingRules = [
  rule('PenstockReceiptsLost', {
    severity: 'critical',
    condition: { of: grew(15, 'receipts_dropped_total'), is: '>', than: 0 },
    summary: '{instance} lost receipts: its database is or was away',
    when: 'Receipts were dropped',
    mends: 'The database was away for longer than memory lasts',
  }),
  rule('PenstockReceiptForged', {
    severity: 'critical',
    condition: { of: grew(15, 'receipts_forged_total'), is: '>', than: 0 },
    summary: '{instance} kept receipts out of the public log that no gateway issued',
    when: 'A gateway kept receipts out of the public log: they lack the mark of the process that issued them, or bear a wrong one',
    mends:
      'A person or program has written into the database, or a gateway of a version before [marks](back-up-and-upgrade.md#upgrading) or with [another log key](secure.md#rotating-keys) still runs. `./penstock audit books` names the receipts; the log goes on without them',
  }),
  rule('PenstockLogStopped', {
    severity: 'critical',
    condition: { of: max(newest(`${metricPrefix}log_stopped`), 'instance'), is: '>', than: 0 },
    summary: '{instance} adds nothing to the public log',
    when: 'A gateway adds nothing to the public log',
    mends:
      '`log_key_unknown` in the log: [a log key without the one before](secure.md#rotating-keys). `log_forked`: [after a restore](../trust.md#after-a-restore), or a person or program has written into the database. `log_wait` names an error that the database repeats: a row that it refuses, or it does not answer. `log_held_back` names the sessions (`pid` in `pg_stat_activity`) whose open transactions keep receipts or the ledger out, or that are at a turn of the log and come to no end: commit them, or end them with `pg_terminate_backend`',
  }),
  rule('PenstockBooksBroken', {
    severity: 'critical',
    condition: { of: max(newest(`${metricPrefix}ledger_books_broken_rules`)), is: '>', than: 0 },
    summary: 'The books break {value} of their rules',
    when: 'The last proof of the books found a broken rule',
    mends:
      '`./penstock audit books` says which; stop credits and payouts until it is known why, and keep a backup of this state',
  }),
  rule('PenstockClaimsAtBound', {
    severity: 'warning',
    condition: { of: max(newest(`${metricPrefix}node_usage_claims_at_bound`), 'node'), is: '>', than: 5 },
    summary: '{node} claims as much usage as could still be true, in {value} of its last 100 paid calls',
    when: 'In more than 5 of its last 100 paid calls a node claimed the most prompt tokens that could be true, or more than 90 % of the most output tokens',
    mends:
      'The node is `review` in `./penstock nodes list` and in the console’s pool. Either it claims what it did not do, or its server counts tokens that stay hidden (a model that thinks without showing it): compare some answers with their usage, and stop offering it, or reject its held receipts ([money.md](../money.md#a-receipt-on-hold))',
  }),
  rule('PenstockAuditLost', {
    severity: 'critical',
    condition: { of: grew(15, 'audit_access_events_refused_total'), is: '>', than: 0 },
    summary: '{instance} lost access events of the audit: its database is or was away',
    when: 'Access events were never stored',
    mends: 'The database was away for longer than memory lasts; the requests of that time stand in the log',
  }),
  rule('PenstockAuditHeadLost', {
    severity: 'critical',
    condition: { of: max(newest(`${metricPrefix}audit_head_lost`), 'instance'), is: '>', than: 0 },
    summary: '{instance}: the newest rows of its audit are gone from the database; actions are refused',
    when: "An action found the end of its gateway's audit chain missing, or older than that gateway left it",
    mends:
      'Somebody deleted or put back rows of the audit, or restored a database under a running gateway. The log line `audit_head_lost` names the writer, its last place (`seq`) and its MAC; see [Audit](secure.md#audit), "Chains"',
  }),
  rule('PenstockWebhooksFail', {
    severity: 'warning',
    condition: {
      of: ratio(
        sum(rate(15, `${metricPrefix}webhook_attempts_total`, ['result', '!=', 'delivered'])),
        sum(rate(15, `${metricPrefix}webhook_attempts_total`)),
      ),
      is: '>',
      than: 0.5,
    },
    forMs: 15 * minuteMs,
    summary: '{value|percent} of the attempts to deliver a webhook fail',
    when: 'More than half of all attempts to deliver a webhook fail for 15 min',
    mends:
      "`last_error` in `GET /v1/admin/webhooks`: when it is one receiver, its owner must mend it; `dns_error` or `connect_error` of all is this gateway's own connection",
  }),
  rule('PenstockTunnelsRefused', {
    severity: 'warning',
    condition: {
      of: sum(increase(15, `${metricPrefix}tunnel_hellos_refused_total`, ['code', '!=', 'stopping']), 'code'),
      is: '>',
      than: 10,
    },
    forMs: 5 * minuteMs,
    summary: 'Nodes that dial in are refused: {code}',
    when: 'More than 10 refused tunnels in 15 min with one `code`, for 5 min',
    mends:
      '`signature_expired`: the clock of a node, or of this gateway. `signature_invalid`: an agent whose node was revoked, or an old `SVC_ROUTER_KEY` taken away too early. `nonce_reused`: somebody repeats a message that they saw',
  }),
  rule('PenstockGuessing', {
    severity: 'warning',
    condition: {
      of: sum(rate(5, `${metricPrefix}http_requests_total`, ['status', '=', '401'])),
      is: '>',
      than: 1,
    },
    forMs: 5 * minuteMs,
    summary: 'Somebody sends wrong credentials, {value|number} a second',
    when: 'More than one 401 a second for 5 min',
    mends: 'A client with an old key, or somebody who guesses; failures are slowed down by address',
  }),
  rule('PenstockRestarts', {
    severity: 'warning',
    condition: { of: changes(30, 'process_start_time_seconds', ['job', '=', 'penstock']), is: '>', than: 2 },
    summary: '{instance} starts again and again',
    when: 'Three starts within 30 min',
    mends: 'The log before each start; memory (`process_resident_memory_bytes`)',
    outside: 'A gateway that has just started does not know how often it did before. Prometheus remembers it.',
  }),
  rule('PenstockMemoryFull', {
    severity: 'warning',
    condition: {
      of: lowest(
        10,
        30,
        max(
          ratio(newest(`${metricPrefix}memory_kept_bytes`), newest(`${metricPrefix}memory_kept_bytes_max`)),
          'instance',
        ),
      ),
      is: '>',
      than: 0.8,
    },
    summary: '{instance}: answers and forms have filled the memory for them for 10 minutes',
    when: 'More than 80 % of the memory for answers, forms and tables has been in use for 10 min',
    mends:
      'Many large answers at once, or clients that read theirs slowly: raise `SVC_MEMORY_MB` if the computer has the memory, or start more processes',
  }),
  rule('PenstockMemoryRefused', {
    severity: 'warning',
    condition: { of: sum(grew(15, 'memory_refusals_total'), 'kind'), is: '>', than: 10 },
    summary: '{value|number} requests were {kind} for memory within 15 minutes',
    when: 'More than 10 requests in 15 min were refused for memory, or more than 10 were ended',
    mends:
      'An account that asks for many large answers at once. Its share is a quarter of `SVC_MEMORY_MB`; `max_concurrency` in its policy keeps it below that',
  }),
  rule('PenstockDescriptors', {
    severity: 'warning',
    condition: { of: newest('process_open_fds', ['job', '=', 'penstock']), is: '>', than: 50_000 },
    forMs: 5 * minuteMs,
    summary: '{instance} nears its limit of open connections (LimitNOFILE=65536)',
    when: 'A process has had more than 50 000 open descriptors for 5 min',
    mends: '`LimitNOFILE`; streams that never end',
  }),
  rule('PenstockTracesLost', {
    severity: 'warning',
    condition: { of: grew(15, 'trace_spans_dropped_total'), is: '>', than: 0 },
    forMs: 15 * minuteMs,
    summary: 'The collector of traces does not take all of them',
    when: 'Spans were dropped for 15 min',
    mends: 'The collector',
  }),
] as const
