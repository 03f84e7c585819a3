import type { Setting } from './setting.ts'

/** What one mixture may take. */
export const mixturesSettings = {
  SVC_MIXTURE_EXPERTS_MAX: {
    kind: 'number',
    default: 4,
    min: 1,
    max: 16,
    meaning: 'How many experts one mixture may have; the aggregator does not count',
  },
  SVC_MIXTURE_TOKENS_MAX: {
    kind: 'number',
    default: 65_536,
    min: 1_024,
    max: 1_048_576,
    meaning: 'Largest estimate over all sub-calls of one mixture, tokens',
  },
  SVC_MIXTURE_DEADLINE_MS: {
    kind: 'number',
    default: 120_000,
    min: 5_000,
    max: 600_000,
    meaning:
      'How long a whole mixture may take, ms. With an aggregator the experts get 65 % of it, otherwise all but 1 s.',
  },
  SVC_MIXTURE_OUTPUT_TOKENS_DEFAULT: {
    kind: 'number',
    default: 1_024,
    min: 1,
    max: 1_048_576,
    meaning: '`max_tokens` of each sub-call when the request has none, tokens',
  },
} as const satisfies Record<string, Setting>
