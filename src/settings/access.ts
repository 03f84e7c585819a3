import type { Setting } from './setting.ts'

/** Who may do what: tokens, secrets, rates, and what the audit asks for. */
export const accessSettings = {
  SVC_ADMIN_TOKENS: {
    kind: 'list',
    meaning: 'Admin tokens, raw or `sha256:<hex>`; made at the first start when embedded',
  },
  SVC_OPERATOR_TOKENS: { kind: 'list', meaning: 'Operator tokens, likewise' },
  SVC_VIEWER_TOKENS: { kind: 'list', meaning: 'Viewer tokens, likewise' },
  SVC_TOKEN_PEPPER: {
    kind: 'secret',
    meaning: 'HMAC pepper of stored tokens; made in the data folder when embedded, required with `DATABASE_URL`',
  },
  SVC_SECRETS_KEY: { kind: 'secret', meaning: 'Encrypts stored secrets (node API keys, webhook secrets); likewise' },
  SVC_AUDIT_KEY: {
    kind: 'secret',
    meaning: 'Keys hashed addresses and tokens, and the chains of the audit; a list, newest first; likewise',
  },
  SVC_ROUTER_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds by which node agents know this gateway, 32 bytes each in base64 or hex, newest first; likewise',
  },
  SVC_WEBHOOK_KEY: {
    kind: 'secret',
    meaning: 'Ed25519 seeds that sign webhooks, 32 bytes each in base64 or hex, newest first; likewise',
  },
  SVC_LOG_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds that sign the public log and the receipts that the gateway issues, 32 bytes each in base64 or hex, newest first; likewise',
  },
  SVC_LOG_INTERVAL_MS: {
    kind: 'number',
    default: 2_000,
    min: 50,
    max: 5_000,
    meaning: 'What was written enters the public log after at most twice this, ms',
  },
  SVC_LOG_COSIGN_MS: {
    kind: 'number',
    default: 5_000,
    min: 50,
    max: 600_000,
    meaning: 'Agents and other witnesses are asked to cosign the newest checkpoint every, ms',
  },
  SVC_LOG_WITNESSES: {
    kind: 'list',
    meaning: 'Witnesses elsewhere (C2SP `tlog-witness`), each as `KEY URL`: the key in the form `name+hash+base64`',
  },
  SVC_ENFORCE_REASON: {
    kind: 'flag',
    default: false,
    meaning: 'Refuse admin actions that should have a reason and have none; else they are only marked in the audit',
  },
  SVC_REQUIRE_SECOND_APPROVER: {
    kind: 'flag',
    default: false,
    meaning: 'Credits, keys, payouts and purges need the token of a second admin in `X-SVC-Approver-Token`',
  },
  SVC_AUDIT_MIN_RETENTION_DAYS: {
    kind: 'number',
    default: 1,
    min: 1,
    max: 3_650,
    meaning: 'A purge keeps the events of the audit of at least so many days; production: 30',
  },
  SVC_AUDIT_WATCH_DENIED: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Denied admin calls in the window of an audit summary, from which on its risk is `watch`',
  },
  SVC_AUDIT_REVIEW_DENIED: { kind: 'number', default: 20, min: 1, max: 1_000_000, meaning: 'Likewise, `review`' },
  SVC_AUDIT_WATCH_ERRORS: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin calls that ended in a 5xx, likewise: `watch`',
  },
  SVC_AUDIT_REVIEW_ERRORS: { kind: 'number', default: 20, min: 1, max: 1_000_000, meaning: 'Likewise, `review`' },
  SVC_KEY_OUTAGE_MS: {
    kind: 'number',
    default: 60_000,
    min: 0,
    max: 600_000,
    meaning: 'Known keys work from memory while the database is away, ms',
  },
  SVC_KEY_ROTATION_MS: {
    kind: 'number',
    default: 86_400_000,
    min: 0,
    max: 604_800_000,
    meaning: 'A rotated key still works for, ms',
  },
  SVC_PUBLIC_RPM_PER_IP: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Public GET requests per address and minute',
  },
  SVC_ADMIN_RPM_PER_TOKEN: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin requests per token and minute',
  },
  SVC_CONSOLES_MAX: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 1_000,
    meaning: "Operators' consoles open at once (`GET /v1/admin/inspect`)",
  },
  SVC_AUTH_FAILURES_PER_MINUTE: {
    kind: 'number',
    default: 20,
    min: 1,
    max: 10_000,
    meaning: 'Failed authentications per address and minute',
  },
  SVC_AUTH_LOCKOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'Further failures of that address get 429 for, ms',
  },
} as const satisfies Record<string, Setting>
