import { parseArgs } from 'node:util'
import { type CaseName, caseNames } from './cases.ts'

export interface Options {
  readonly cases: readonly CaseName[]
  readonly rounds: number
  readonly secs: number
  /** Before the first round, for each target. */
  readonly warmupSecs: number
  /** Proxies on CPU 0, node and load on CPU 1; null: wherever the kernel likes. */
  readonly pin: { readonly proxyCpu: string; readonly loadCpu: string } | null
  /** Daily quota and concurrency limit on the account: every call then takes and returns a lease. */
  readonly limits: boolean
  /** Every raw result, as JSON. */
  readonly out: string | null
  /** Writes the table into the notebook, and the page of results from that. */
  readonly write: boolean
}

export const usage = `npm run bench -- [options]            Penstock against a raw Bun pass-through and against no proxy at all
npm run bench -- peers [--write]       Penstock against other gateways, those that are installed
npm run bench -- processes [--write]   two processes of one gateway against one
npm run bench -- gateways [--write]    one, two and three gateways on one PostgreSQL behind nginx
npm run bench -- affinity [--write]    prefix affinity against round robin and least in flight
npm run bench -- decision [--write]    the choice of a node: µs for a decision, µs for a hashed block
npm run bench -- fleet [--write]       rules for the choice of a node, in virtual time
npm run bench -- servers [--write]     the same machines as vLLM, SGLang, Ollama and LM Studio against llama.cpp
npm run bench -- mixture [--write]     what a mixture adds to its slowest expert
npm run bench -- tunnel [--write]      a node agent over its tunnel against the same agent reached directly
npm run bench -- copies [--write]      first tokens beside a copy of a model, with its bound and without
npm run bench -- consoles [--write]    chat with 50 consoles open against none
npm run bench -- paid [--write]        paid chat against free chat
npm run bench -- promises [--write]    promises at the ends of paid answers against none
npm run bench -- dialects [--write]    streams of Messages and of Responses against streams of chat
npm run bench -- aimed [--write]       the longest turn, and what is written, for answers that are aimed at a gateway
npm run bench -- embeddings [--write]  one large request on one, two and four nodes
npm run bench -- drains [--write]      connections that are reset while a gateway ends
npm run bench -- memory [--write]      large answers asked for at once: memory, and what others notice
npm run bench -- sealed [--write]      sealed streams against unsealed ones, by processor time
npm run bench -- ledger [--write]      paid requests through the ledger, in groups and with a transaction each

  --only a,b     cases: ${caseNames.join(' ')}
  --rounds N     interleaved, the order rotates, medians are printed (3)
  --secs S       of each measurement (3)
  --warmup S     for each target before the first round, more until 50,000 requests have warmed the JIT (10)
  --pin          proxies on CPU 0, node and load generator on CPU 1
  --limits       with a daily quota and a concurrency limit on the account
  --out FILE     every raw result, as JSON
  --write        put the tables into bench/notebook, and make bench/RESULTS.md from them`

/** The text says what is wrong with the command line. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

function amount(text: string, name: string, least: number): number {
  const value = Number(text)
  if (!(value >= least)) throw new UsageError(`--${name} must be a number of at least ${least}`)
  return value
}

function casesOf(text: string | undefined): readonly CaseName[] {
  if (text === undefined) return caseNames
  const wanted = text.split(',')
  const unknown = wanted.find((name) => !caseNames.some((known) => known === name))
  if (unknown !== undefined) throw new UsageError(`no such case: ${unknown}`)
  return caseNames.filter((name) => wanted.includes(name))
}

const flags = {
  only: { type: 'string' },
  rounds: { type: 'string', default: '3' },
  secs: { type: 'string', default: '3' },
  warmup: { type: 'string', default: '10' },
  pin: { type: 'boolean', default: false },
  limits: { type: 'boolean', default: false },
  out: { type: 'string' },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

const benches = [
  'gateway',
  'peers',
  'processes',
  'gateways',
  'affinity',
  'decision',
  'fleet',
  'servers',
  'mixture',
  'tunnel',
  'copies',
  'consoles',
  'paid',
  'promises',
  'ledger',
  'dialects',
  'aimed',
  'embeddings',
  'drains',
  'memory',
  'sealed',
] as const
export type Bench = (typeof benches)[number]

export function readOptions(args: readonly string[]): Options & { readonly command: Bench | 'help' } {
  const { values, positionals } = parsed(args)
  const [wanted = 'gateway', ...rest] = positionals
  const command = benches.find((name) => name === wanted)
  if (command === undefined || rest.length > 0) throw new UsageError(`what is ${positionals.join(' ')}?`)
  return {
    command: values.help ? 'help' : command,
    cases: casesOf(values.only),
    rounds: Math.round(amount(values.rounds, 'rounds', 1)),
    secs: amount(values.secs, 'secs', 0.1),
    warmupSecs: amount(values.warmup, 'warmup', 0),
    pin: values.pin ? { proxyCpu: '0', loadCpu: '1' } : null,
    limits: values.limits,
    out: values.out ?? null,
    write: values.write,
  }
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : 'the command line cannot be read')
  }
}
