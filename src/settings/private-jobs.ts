import type { Setting } from './setting.ts'

/** Private jobs and their webhooks. */
export const privateJobsSettings = {
  SVC_JOB_TTL_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 300_000,
    max: 86_400_000,
    meaning: 'Age at which an unfinished private job expires, ms',
  },
  SVC_JOB_RETENTION_MS: {
    kind: 'number',
    default: 2_592_000_000,
    min: 3_600_000,
    max: 31_536_000_000,
    meaning: 'How long the gateway keeps an ended private job with its ciphertexts, ms',
  },
  SVC_JOBS_OPEN_PER_CUSTOMER_MAX: {
    kind: 'number',
    default: 100,
    min: 1,
    max: 100_000,
    meaning: 'Unfinished private jobs that one customer may have',
  },
  SVC_JOBS_OPEN_PER_NODE_MAX: {
    kind: 'number',
    default: 1_000,
    min: 1,
    max: 1_000_000,
    meaning: 'Unfinished private jobs that one node may have',
  },
  SVC_JOBS_RUNNING_PER_NODE_MAX: {
    kind: 'number',
    default: 4,
    min: 1,
    max: 1_000,
    meaning: 'Private jobs that one gateway may run at once on one node',
  },
  SVC_WEBHOOK_PORTS: {
    kind: 'list',
    meaning: 'Ports that a `webhook_url` may name. Without this setting only 443 is allowed.',
  },
} as const satisfies Record<string, Setting>
