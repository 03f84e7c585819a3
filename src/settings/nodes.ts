import type { Setting } from './setting.ts'

/** How nodes are found, asked and given up. */
export const nodesSettings = {
  SVC_DISCOVER: { kind: 'flag', default: true, meaning: 'Look for model servers on loopback at start' },
  SVC_DEMO: {
    kind: 'choice',
    default: 'auto',
    of: ['auto', 'always', 'never'],
    meaning: 'The built-in demo runtime; `auto`: only while no other node exists (`never` with `DATABASE_URL`)',
  },
  SVC_ENDPOINT_NETWORKS: {
    kind: 'list',
    meaning:
      'Networks (`10.0.0.0/8`) in which an enrolling agent may have its `endpoint_url`, over http too; elsewhere only https to a global address',
  },
  SVC_ENROLLMENT_TTL_MS: {
    kind: 'number',
    default: 900_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'An enrolment token works for, ms',
  },
  SVC_POLL_INTERVAL_MS: {
    kind: 'number',
    default: 5_000,
    min: 50,
    max: 60_000,
    meaning: 'Between two status polls of a node, ±10 %, ms',
  },
  SVC_PROBE_TIMEOUT_MS: { kind: 'number', default: 2_000, min: 50, max: 30_000, meaning: 'One status poll, ms' },
  SVC_STALE_AFTER_MS: {
    kind: 'number',
    default: 15_000,
    min: 100,
    max: 600_000,
    meaning: 'No answer for this long: no new work, ms',
  },
  SVC_OFFLINE_AFTER_MS: {
    kind: 'number',
    default: 45_000,
    min: 200,
    max: 3_600_000,
    meaning: 'No answer for this long: offline, in-flight work aborted, ms',
  },
  SVC_HOLD_DOWN_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'A node that flaps gets no new work for, ms',
  },
  SVC_EJECTION_MS: {
    kind: 'number',
    default: 30_000,
    min: 100,
    max: 300_000,
    meaning: 'First ejection of a failing route; times the number of ejections, at most 300 s, ms',
  },
  SVC_DRAIN_TIMEOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'A draining node may finish its work for, ms',
  },
} as const satisfies Record<string, Setting>
