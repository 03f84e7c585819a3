/**
 * A fleet and the conversations that come to it, in virtual time: seconds and tokens. The nodes hide their slots, as most
 * servers do, unless a load says otherwise.
 */
export interface Plan {
  readonly nodes: number
  /** Tokens that a node of speed 1 reads and writes, per second. */
  readonly prefill: number
  readonly decode: number
  readonly slots: number
  readonly cacheTokens: number
  /** By turns over the nodes: of their speeds, and of their caches. */
  readonly speeds: readonly number[]
  readonly cacheSizes: readonly number[]
  /** What the nodes tell of their slots: nothing, how many they have, or at each poll what they work on and what waits. */
  readonly tells: 'nothing' | 'slots' | 'load'
  /** Node 1 says this of its slots. null: what it has. */
  readonly lie: number | null
  /** Node 1 has so many slots. null: as many as the others. */
  readonly few: number | null
  /** What is told of a cache ÷ what it has; null: nothing is. */
  readonly cacheTold: number | null
  /** At each poll a full cache tells how much is in it, as an agent that hears its server's events does. */
  readonly events: boolean
  /** Answers say how much of the prompt was cached. */
  readonly reports: boolean
  /** The last node comes then; the first is at a fifth of its speed for 200 s from then on. 0: never. */
  readonly joinsAt: number
  readonly slowFrom: number
  /** First tokens that are late by chance: their share. */
  readonly hiccups: number
  /** Each running call delays first tokens by so much. */
  readonly interference: number
  readonly systems: number
  readonly systemTokens: number
  readonly userTokens: number
  /** The lengths of prompts are Pareto's with this exponent; 0: uniform. */
  readonly tail: number
  readonly outTokens: number
  readonly turns: number
  readonly think: number
  readonly zipf: number
  /** Conversations per second, and in each fourth half minute so many times as many; 0: steady. */
  readonly rate: number
  readonly bursts: number
  /** The share of conversations of one turn that share nothing. */
  readonly unique: number
  readonly horizon: number
  readonly warmup: number
}

export const plan: Plan = {
  nodes: 8,
  prefill: 3_000,
  decode: 40,
  slots: 8,
  cacheTokens: 120_000,
  speeds: [1],
  cacheSizes: [1],
  tells: 'nothing',
  lie: null,
  few: null,
  cacheTold: 1,
  events: false,
  reports: true,
  joinsAt: 0,
  slowFrom: 0,
  hiccups: 0,
  interference: 0,
  systems: 24,
  systemTokens: 3_000,
  userTokens: 400,
  tail: 0,
  outTokens: 300,
  turns: 8,
  think: 6,
  zipf: 1.6,
  rate: 0.75,
  bursts: 0,
  unique: 0,
  horizon: 900,
  warmup: 200,
}

const unlike = [0.25, 0.5, 1, 1, 2, 4, 0.5, 1]
const silent = { reports: false, cacheTold: null }
const vllm = { slots: 64, cacheTokens: 400_000, prefill: 6_000, decode: 60, rate: 2.2, systems: 60 }
const agents = { systemTokens: 8_000, userTokens: 1_000, turns: 25, think: 2, outTokens: 150, systems: 60, rate: 0.12 }
const small = { cacheTokens: 32_000, slots: 4, rate: 0.35 }

/** By what is particular in each. */
export const loads = {
  'half load': { rate: 0.5 },
  'three quarters': {},
  'three quarters, slots told': { tells: 'slots' },
  'three quarters, load told': { tells: 'load' },
  'three quarters, nothing told': silent,
  saturated: { rate: 0.9 },
  'saturated, slots told': { rate: 0.9, tells: 'slots' },
  'prompts of a heavy tail': { tail: 1.2, rate: 0.6 },
  bursts: { bursts: 2.8 },
  'one node of a quarter of the speed': { speeds: [1, 1, 1, 1, 1, 1, 1, 0.25], rate: 0.7 },
  'speeds of 0.25 to 4': { speeds: unlike, rate: 0.8 },
  'speeds of 0.25 to 4, nothing told': { speeds: unlike, rate: 0.8, ...silent },
  'a node that says 64 slots and has 8': { tells: 'slots', lie: 64, rate: 0.9 },
  'a node that says 2 slots and has 8': { tells: 'slots', lie: 2, rate: 0.9 },
  'a node that has 2 slots of 8': { tells: 'slots', few: 2, rate: 0.9 },
  'a node joins': { joinsAt: 450, rate: 0.8 },
  'a node slows to a fifth': { slowFrom: 400, rate: 0.7 },
  'agents with long contexts': { ...agents, cacheTokens: 240_000, decode: 80 },
  'nine of ten prompts unique': { unique: 0.9, rate: 2.4 },
  'nine of ten prompts unique, nothing told': { unique: 0.9, rate: 2.4, ...silent },
  'caches of 0.25 to 2': { cacheSizes: [0.25, 1, 2, 0.5], rate: 0.8 },
  'caches told four times as large': { cacheTold: 4, cacheTokens: 60_000 },
  'small caches': small,
  'small caches, slots told': { ...small, tells: 'slots' },
  'small caches, events': { ...small, events: true },
  'saturated, events': { rate: 0.9, events: true },
  'caches of 0.25 to 2, events': { cacheSizes: [0.25, 1, 2, 0.5], rate: 0.8, events: true },
  '64 slots': vllm,
  '64 slots, told': { ...vllm, tells: 'slots' },
  '64 slots, load told': { ...vllm, tells: 'load' },
  '64 slots, nothing told': { ...vllm, ...silent },
  '64 slots, calls slow each other': { ...vllm, interference: 0.01 },
  'late by chance': { hiccups: 0.15 },
  '64 slots, late by chance': { ...vllm, hiccups: 0.15 },
} as const satisfies Readonly<Record<string, Partial<Plan>>>

export type LoadName = keyof typeof loads
