import { modelIdPattern } from '../ids.ts'
import { foreignJson } from '../protocol/json/foreign-json.ts'
import { given } from '../protocol/json/json-object.ts'
import { cacheTokensMax } from '../protocol/wire/nodes/agent.ts'
import type { ModelFile } from '../protocol/wire/nodes/model-facts.ts'
import type { ProbeFetch, RankLoad, RuntimeModel, RuntimeStatus } from './runtime.ts'

/**
 * Reading what model servers say. Nothing of it is believed before it was looked at: a field of another type counts as
 * absent, and text that is no JSON as an answer without fields.
 */
export type Fields = Readonly<Record<string, unknown>>

export interface Answer {
  readonly status: number
  /** The parsed body, or undefined if it is not JSON or exceeds its bounds. */
  readonly body: unknown
  readonly server: string | null
}

/** How many models of one server are accepted. */
export const modelsMax = 1_000

export async function ask(get: ProbeFetch, path: string): Promise<Answer> {
  const answer = await get(path)
  return { status: answer.status, body: foreignJson(await answer.text()), server: answer.headers.get('server') }
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

/** The entries of a list of objects; null where `value` is no list. */
export function listOf(value: unknown): readonly Fields[] | null {
  return Array.isArray(value) ? value.slice(0, modelsMax).map(fieldsOf) : null
}

export function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** A whole number of at least 1, such as a context length or a number of slots. */
export function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null
}

/** A server's report of a model's files, without absent fields (null); empty if all are absent. */
export function fileOf(said: { readonly [Name in keyof ModelFile]: ModelFile[Name] | null }): {
  readonly file?: ModelFile
} {
  const file = given(said) as ModelFile
  return Object.keys(file).length === 0 ? {} : { file }
}

/** The size of a server's cache by its report; null if it is missing or implausible. */
export function cacheTokensOf(places: number | null, tokensEach: number | null): number | null {
  if (places === null || tokensEach === null) return null
  return isCacheSize(places * tokensEach) ? places * tokensEach : null
}

export const isCacheSize = (tokens: number): boolean => tokens > 0 && tokens <= cacheTokensMax

/** The `data` of an OpenAI model list. null if the answer is not one. */
export function modelListOf(answer: Answer): readonly Fields[] | null {
  return answer.status === 200 ? listOf(fieldsOf(answer.body).data) : null
}

/** Removes ids that no node may report (§22), and repeated ids. */
export function believable(models: readonly RuntimeModel[]): readonly RuntimeModel[] {
  const byId = new Map<string, RuntimeModel>()
  for (const model of models) if (modelIdPattern.test(model.id) && !byId.has(model.id)) byId.set(model.id, model)
  return [...byId.values()]
}

/** Series of one gauge that are read: a server has one for each of its engines, some for each of their priorities, too. */
const seriesMax = 256

interface Series {
  readonly labels: string
  readonly value: number
}

/**
 * The lines of a gauge in the text format of Prometheus. What is no whole number of at least 0 is left out. `whole`: no more
 * of them are there than are read.
 */
function seriesOf(metrics: string, name: string): { readonly series: readonly Series[]; readonly whole: boolean } {
  const series: Series[] = []
  let at = metrics.startsWith(name) ? 0 : metrics.indexOf(`\n${name}`) + 1
  for (let read = 0; metrics.startsWith(name, at); read++) {
    if (read >= seriesMax) return { series, whole: false }
    const end = metrics.indexOf('\n', at)
    const line = metrics.slice(at + name.length, end === -1 ? undefined : end)
    const [, labels = '', value = ''] = /^(?:\{(.*)\})? ([0-9.e+]+)(?: [0-9]+)?\r?$/.exec(line) ?? []
    if (value !== '' && Number.isSafeInteger(Number(value))) series.push({ labels, value: Number(value) })
    const next = metrics.indexOf(`\n${name}`, at)
    if (next === -1) break
    at = next + 1
  }
  return { series, whole: true }
}

/** Ranks above the first of one engine repeat its numbers, and so do the numbers of single priorities. */
const repeats = /(?:^|,)(?:tp_rank="[1-9]|priority="[^"])/

/** A gauge, summed over the engines of its server. null: it has none of this name. */
export function gaugeOf(metrics: string, name: string): number | null {
  let sum: number | null = null
  for (const { labels, value } of seriesOf(metrics, name).series) if (!repeats.test(labels)) sum = (sum ?? 0) + value
  return sum
}

/** A gauge for each value of one of its labels that is a whole number; none where it has more series than are read. */
export function gaugesBy(metrics: string, name: string, label: string): ReadonlyMap<number, number> {
  const sums = new Map<number, number>()
  const value = new RegExp(`(?:^|,)${label}="([0-9]{1,4})"`)
  const { series, whole } = seriesOf(metrics, name)
  if (!whole) return sums
  for (const { labels, value: of } of series) {
    const at = value.exec(labels)?.[1]
    if (at !== undefined && !repeats.test(labels)) sums.set(Number(at), (sums.get(Number(at)) ?? 0) + of)
  }
  return sums
}

/** The names of the gauges by which a kind of server says how many requests it works on, and how many wait. */
export interface LoadGauges {
  readonly running: string
  readonly queued: string
}

/** Its metrics; null if it has none. A server whose metrics are too long or come too late still serves. */
export async function metricsOf(get: ProbeFetch): Promise<string | null> {
  try {
    const answer = await get('/metrics')
    const text = await answer.text()
    return answer.status === 200 ? text : null
  } catch {
    return null
  }
}

/** What the metrics say of the load; nothing where they lack one of the two. */
export function loadIn(
  metrics: string | null,
  gauges: LoadGauges,
): Partial<Pick<RuntimeStatus, 'running' | 'queueDepth'>> {
  if (metrics === null) return {}
  const [running, queueDepth] = [gaugeOf(metrics, gauges.running), gaugeOf(metrics, gauges.queued)]
  return running === null || queueDepth === null ? {} : { running, queueDepth }
}

/** Data-parallel ranks of one server that are told apart. */
export const ranksMax = 64

/** Where a server tells of its ranks. */
interface RankGauges extends LoadGauges {
  /** Names the rank in these gauges. */
  readonly label: string
  /** The tokens that the cache of each rank holds, as far as the metrics say it. */
  cacheTokensBy(metrics: string): ReadonlyMap<number, number>
}

/**
 * The data-parallel ranks of a server, by the label that names them in its gauges: they must be 0, 1 and so on, or a request
 * could not name them. Nothing where it has one, or too many. Without metrics it has those that it had `before`.
 */
export function ranksIn(
  metrics: string | null,
  { running, queued, label, cacheTokensBy }: RankGauges,
  before: RuntimeStatus | null,
): Pick<RuntimeStatus, 'ranks'> {
  if (metrics === null) return before?.ranks === undefined ? {} : { ranks: before.ranks.map(withoutLoad) }
  const [busyBy, waitingBy] = [gaugesBy(metrics, running, label), gaugesBy(metrics, queued, label)]
  if (busyBy.size < 2 || busyBy.size > ranksMax) return {}
  const tokensBy = cacheTokensBy(metrics)
  const ranks: RankLoad[] = []
  for (let rank = 0; rank < busyBy.size; rank++) {
    const [busy, waiting] = [busyBy.get(rank), waitingBy.get(rank)]
    if (busy === undefined || waiting === undefined) return {}
    ranks.push({ running: busy, queueDepth: waiting, cacheTokens: tokensBy.get(rank) ?? null })
  }
  return { ranks }
}

const withoutLoad = ({ cacheTokens }: RankLoad): RankLoad => ({ running: null, queueDepth: null, cacheTokens })
