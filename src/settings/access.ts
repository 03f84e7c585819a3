import type { Setting } from './setting.ts'

/** Who may do what: tokens, secrets, rates, and what the audit asks for. */
export const accessSettings = {
  SVC_ADMIN_TOKENS: {
    kind: 'list',
    meaning:
      'Admin tokens, each as plain text or as `sha256:<hex>`. With the embedded database the first start makes one.',
  },
  SVC_BOOTSTRAP: {
    kind: 'flag',
    default: false,
    meaning:
      'With `DATABASE_URL`: the first start makes role tokens, the customer `local` and a gateway key, as the embedded gateway does, and writes them to `credentials.json` in `SVC_DATA_DIR`. `SVC_ADMIN_TOKENS` may then be absent.',
  },
  SVC_OPERATOR_TOKENS: { kind: 'list', meaning: 'Operator tokens, each as plain text or as `sha256:<hex>`' },
  SVC_VIEWER_TOKENS: { kind: 'list', meaning: 'Viewer tokens, each as plain text or as `sha256:<hex>`' },
  SVC_TOKEN_NAMES: {
    kind: 'list',
    meaning:
      'Names of tokens that the lists above have or the first start made: `NAME=sha256:<hex>`, with the SHA-256 of the token. The audit shows the name beside what is done with the token.',
  },
  SVC_TOKEN_PEPPER: {
    kind: 'secret',
    meaning:
      'HMAC pepper for stored tokens. The embedded gateway makes it in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_SECRETS_KEY: {
    kind: 'secret',
    meaning:
      'Key that encrypts stored secrets (node API keys, webhook secrets). The embedded gateway makes it in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_AUDIT_KEY: {
    kind: 'secret',
    meaning:
      'HMAC keys for the audit chain and for hashed addresses and tokens, newest first. The embedded gateway makes one in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_ROUTER_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds that sign requests to node agents, 32 bytes each in base64 or hex, newest first. The embedded gateway makes one in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_WEBHOOK_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds that sign webhooks, 32 bytes each in base64 or hex, newest first. The embedded gateway makes one in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_LOG_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds that sign the public log and the receipts that the gateway issues, 32 bytes each in base64 or hex, newest first. The embedded gateway makes one in its data folder; `DATABASE_URL` requires it.',
  },
  SVC_LOG_INTERVAL_MS: {
    kind: 'number',
    default: 2_000,
    min: 50,
    max: 5_000,
    meaning: 'A new entry is in the public log after at most twice this time, ms',
  },
  SVC_LOG_COSIGN_MS: {
    kind: 'number',
    default: 5_000,
    min: 50,
    max: 600_000,
    meaning: 'How often the gateway asks agents and other witnesses to cosign the newest checkpoint, ms',
  },
  SVC_LOG_WITNESSES: {
    kind: 'list',
    meaning: 'Witnesses elsewhere (C2SP `tlog-witness`), each as `KEY URL` with the key as `name+hash+base64`',
  },
  SVC_LOG_PLAIN_UNTIL: {
    kind: 'text',
    default: null,
    meaning:
      'Until this time (like 2026-11-25T12:00:00Z) the log also takes receipts without the mark of the process that issued them. Set it where a gateway of a version before marks writes into the same database later than an hour after the upgrade. It may be at most 30 days from the start of the gateway.',
  },
  SVC_ENFORCE_REASON: {
    kind: 'flag',
    default: false,
    meaning: 'Refuse an admin action that should have a reason and has none. Otherwise the audit only marks it.',
  },
  SVC_REQUIRE_SECOND_APPROVER: {
    kind: 'flag',
    default: false,
    meaning:
      'Require the token of a second admin in `X-SVC-Approver-Token` for credits, admin debits, keys, payouts and purges',
  },
  SVC_AUDIT_MIN_RETENTION_DAYS: {
    kind: 'number',
    default: 1,
    min: 1,
    max: 3_650,
    meaning: 'Days of audit events that every purge keeps. Production needs 30.',
  },
  SVC_AUDIT_WATCH_DENIED: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Denied admin calls that raise the risk of an audit summary to `watch`',
  },
  SVC_AUDIT_REVIEW_DENIED: {
    kind: 'number',
    default: 20,
    min: 1,
    max: 1_000_000,
    meaning: 'Denied admin calls that raise the risk of an audit summary to `review`',
  },
  SVC_AUDIT_WATCH_ERRORS: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin calls with a 5xx answer that raise the risk of an audit summary to `watch`',
  },
  SVC_AUDIT_REVIEW_ERRORS: {
    kind: 'number',
    default: 20,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin calls with a 5xx answer that raise the risk of an audit summary to `review`',
  },
  SVC_KEY_OUTAGE_MS: {
    kind: 'number',
    default: 60_000,
    min: 0,
    max: 600_000,
    meaning: 'How long keys that the gateway remembers keep working while the database is unreachable, ms',
  },
  SVC_KEY_ROTATION_MS: {
    kind: 'number',
    default: 86_400_000,
    min: 0,
    max: 604_800_000,
    meaning: 'How long the old key keeps working after a rotation, ms',
  },
  SVC_PUBLIC_RPM_PER_IP: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Public GET requests that one address may send per minute',
  },
  SVC_ADMIN_RPM_PER_TOKEN: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin requests that one token may send per minute',
  },
  SVC_CONSOLES_MAX: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 1_000,
    meaning:
      'Operators’ consoles that may be open at once (`GET /v1/admin/inspect`), at most 8 of one token. 8 of them, or half of fewer than 16, are kept for admins.',
  },
  SVC_SESSION_IDLE_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 60_000,
    max: 604_800_000,
    meaning: 'How long a session of the console lasts after a person last used it, ms',
  },
  SVC_SESSION_MAX_MS: {
    kind: 'number',
    default: 43_200_000,
    min: 60_000,
    max: 2_592_000_000,
    meaning: 'How long a session of the console lasts at most, ms',
  },
  SVC_AUTH_FAILURES_PER_MINUTE: {
    kind: 'number',
    default: 20,
    min: 1,
    max: 10_000,
    meaning: 'Failed authentications that one address may have per minute',
  },
  SVC_AUTH_LOCKOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'How long further failed authentications of that address get 429, ms',
  },
} as const satisfies Record<string, Setting>
