import type { Setting } from './setting.ts'

/** How nodes are found, asked and given up. */
export const nodesSettings = {
  SVC_DISCOVER: { kind: 'flag', default: true, meaning: 'Look for model servers on this computer at the start' },
  SVC_DEMO: {
    kind: 'choice',
    default: 'auto',
    of: ['auto', 'always', 'never'],
    meaning:
      'When the built-in demo text generator runs. `auto` means until another node has had a model, and never with `DATABASE_URL`.',
  },
  SVC_ENDPOINT_NETWORKS: {
    kind: 'list',
    meaning:
      'Networks (`10.0.0.0/8`) in which the `endpoint_url` of an agent may lie, with http or https. Elsewhere only https to a global address is allowed.',
  },
  SVC_COPY_BYTES_PER_SECOND: {
    kind: 'number',
    default: 16_777_216,
    min: 65_536,
    max: 10_000_000_000,
    meaning:
      'How fast copies of models between nodes pass one process, all together, while it answers requests; without requests they pass as fast as they can',
  },
  SVC_ENROLLMENT_TTL_MS: {
    kind: 'number',
    default: 900_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'How long an enrolment token works, ms',
  },
  SVC_POLL_INTERVAL_MS: {
    kind: 'number',
    default: 5_000,
    min: 50,
    max: 60_000,
    meaning: 'Time between two status polls of a node, ±10 %, ms',
  },
  SVC_PROBE_TIMEOUT_MS: {
    kind: 'number',
    default: 2_000,
    min: 50,
    max: 30_000,
    meaning: 'How long one status poll may take, ms',
  },
  SVC_STALE_AFTER_MS: {
    kind: 'number',
    default: 15_000,
    min: 100,
    max: 600_000,
    meaning: 'Silence after which a node gets no new work, ms',
  },
  SVC_OFFLINE_AFTER_MS: {
    kind: 'number',
    default: 45_000,
    min: 200,
    max: 3_600_000,
    meaning: 'Silence after which a node is offline and the gateway aborts its work, ms',
  },
  SVC_HOLD_DOWN_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'How long a node that flaps gets no new work, ms',
  },
  SVC_EJECTION_MS: {
    kind: 'number',
    default: 30_000,
    min: 100,
    max: 300_000,
    meaning:
      'How long the first ejection of a failing route lasts, ms. Each further one lasts that much longer, up to 300 s.',
  },
  SVC_WAKE_WAIT_MS: {
    kind: 'number',
    default: 120_000,
    min: 1_000,
    max: 600_000,
    meaning: 'How long a request waits for a sleeping node that it wakes before it gets 503, ms',
  },
  SVC_WAKE_ADDRESSES: {
    kind: 'list',
    meaning:
      'Where the gateway sends magic packets, as `192.168.1.255:9`. Default: port 9 of the broadcast addresses of this computer’s networks.',
  },
  SVC_PLAN: {
    kind: 'choice',
    default: 'advise',
    of: ['off', 'advise', 'act'],
    meaning:
      'The plan of which model belongs on which node. `advise` shows it, `act` also does its loads, at most one per node at a time: set it on one of several gateways.',
  },
  SVC_DRAIN_TIMEOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'How long a draining node may take to finish its work, ms',
  },
} as const satisfies Record<string, Setting>
