import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { byWords, count, duration, percent, shortId } from '../../parts/format.ts'
import { firstTokenOf, modelsOf, slotsOf } from '../../parts/node-facts.ts'

/** What a tile's colour means. */
export const colours = { headroom: 'Headroom', first_token: 'First token' } as const
export type Colour = keyof typeof colours

/** What nodes stand together by. A node knows no region: its class is the label that an operator gives it. */
export const groupings = { class: 'Class', owner: 'Owner' } as const
export type Grouping = keyof typeof groupings

/** What is seen of a state beside its colour: a pattern or an edge. */
export type Mark = 'ready' | 'draining' | 'unready' | 'away'

const marks: Readonly<Record<Node['state'], Mark>> = {
  ready: 'ready',
  draining: 'draining',
  yielding: 'draining',
  live: 'unready',
  enrolled: 'unready',
  asleep: 'unready',
  stale: 'away',
  offline: 'away',
  revoked: 'away',
}
/** A node that was drained is live again, and takes no requests until somebody resumes it. */
const isDrained = ({ state, admin_state: wish }: Node) => wish === 'draining' && marks[state] === 'unready'
export const markOf = (node: Node): Mark => (isDrained(node) ? 'draining' : marks[node.state])
export const markWords: Readonly<Record<Mark, string>> = {
  ready: 'ready',
  draining: 'draining, drained or yielding',
  unready: 'asleep or no model ready',
  away: 'offline, stale or revoked',
}

/** Free slots as a share of all; null: it takes no requests, or does not tell its slots. */
export function headroomOf(node: Node): number | null {
  const slots = slotsOf(node)
  if (node.state !== 'ready' || slots === null || slots <= 0) return null
  return Math.max(0, slots - node.in_flight) / slots
}

/** ms. null: none was measured, or the node is away and no request waits for it. */
const waitOf = (node: Node) => (markOf(node) === 'away' ? null : (firstTokenOf(node)?.ms ?? null))

/** From the best step to the worst: the first that holds. */
interface Step {
  readonly words: string
  readonly holds: (value: number) => boolean
}
const freeSteps = [0.75, 0.5, 0.25]
const waitStepsMs = [250, 500, 1_000, 2_500]
const steps: Readonly<Record<Colour, readonly Step[]>> = {
  headroom: [
    ...freeSteps.map((share) => ({
      words: `${percent(share)} free or more`,
      holds: (value: number) => value >= share,
    })),
    { words: `less than ${percent(0.25)}`, holds: (value) => value > 0 },
    { words: 'full', holds: () => true },
  ],
  first_token: [
    ...waitStepsMs.map((ms) => ({ words: `up to ${duration(ms)}`, holds: (value: number) => value <= ms })),
    { words: 'longer', holds: () => true },
  ],
}
export const stepWords = (colour: Colour): readonly string[] => steps[colour].map(({ words }) => words)
export const noStepWords: Readonly<Record<Colour, string>> = {
  headroom: 'takes none, or tells no slots',
  first_token: 'not measured, or away',
}

/** 0 is best; null: what the colour stands for is not known of this node. */
export function stepOf(node: Node, colour: Colour): number | null {
  const value = colour === 'headroom' ? headroomOf(node) : waitOf(node)
  return value === null ? null : steps[colour].findIndex(({ holds }) => holds(value))
}

/** Of its GPUs, or of the computer where they tell none, MiB. */
export interface Memory {
  readonly totalMb: number
  /** By any program; null: the node does not tell. */
  readonly usedMb: number | null
  /** Models in memory that tell what they take, largest first. */
  readonly models: readonly { readonly model: string; readonly mb: number }[]
}

const sumOf = (values: readonly (number | undefined)[]) =>
  values.reduce<number | undefined>(
    (sum, value) => (sum === undefined || value === undefined ? undefined : sum + value),
    0,
  )

/** null: the size of its memory is not known, so that nothing is a share of it. */
export function memoryOf(node: Node): Memory | null {
  const { gpus = [], memory_total_mb: total, memory_used_mb: used } = node.hardware ?? {}
  const ofGpus = gpus.length === 0 ? undefined : sumOf(gpus.map(({ memory_total_mb: mb }) => mb))
  const totalMb = ofGpus ?? total
  if (totalMb === undefined || totalMb <= 0) return null
  const usedMb = ofGpus === undefined ? used : sumOf(gpus.map(({ memory_used_mb: mb }) => mb))
  const models = modelsOf(node)
    .filter(({ loaded }) => loaded === true)
    .flatMap(({ model, resident_mb: resident, memory_mb: said }) => {
      const mb = resident ?? said
      return mb == null ? [] : [{ model, mb }]
    })
    .toSorted((a, b) => b.mb - a.mb)
  return { totalMb, usedMb: usedMb ?? null, models }
}

/** Shares of the memory, of 100: what models take, and all that is taken. */
export interface Bar {
  readonly models: number
  readonly taken: number
}
export function barOf({ totalMb, usedMb, models }: Memory): Bar {
  const share = (mb: number) => Math.min(100, Math.round((100 * mb) / totalMb))
  const ofModels = share(models.reduce((sum, { mb }) => sum + mb, 0))
  return { models: ofModels, taken: Math.max(ofModels, share(usedMb ?? 0)) }
}

/** A tile: flat, so that one that shows nothing new is told from one that does. */
export interface Tile {
  readonly id: string
  readonly name: string
  readonly mark: Mark
  readonly step: number | null
  /** Models in memory, or those that are ready where the node does not tell what is in memory. */
  readonly models: string
  /** Of 100; null: no bar. */
  readonly barModels: number | null
  readonly barTaken: number | null
  /** All of it, for readers of titles and of screens. It begins as the tile's words do. */
  readonly says: string
}

const namedMax = 3
function named(names: readonly string[]): string {
  const more = names.length - namedMax
  return `${names.slice(0, namedMax).join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`
}

const gb = (mb: number) => `${Math.round((10 * mb) / 1_024) / 10} GB`
function memoryWords({ totalMb, usedMb, models }: Memory): string {
  const size = usedMb === null ? `${gb(totalMb)} of memory` : `${gb(usedMb)} of ${gb(totalMb)} of memory taken`
  return models.length === 0 ? size : `${size}: ${named(models.map(({ model, mb }) => `${model} ${gb(mb)}`))}`
}

export function tileOf(node: Node, colour: Colour): Tile {
  const memory = memoryOf(node)
  const bar = memory === null ? null : barOf(memory)
  const models = modelsOf(node)
  const loaded = models.filter((each) => each.loaded === true)
  const shown = loaded.length > 0 ? loaded : models.filter(({ ready, loaded: inMemory }) => ready && inMemory === null)
  const names = [...new Set(shown.map(({ model }) => model))]
  const slots = slotsOf(node)
  const wait = waitOf(node)
  const says = [
    names.length === 0 ? node.name : `${node.name} ${named(names)}`,
    isDrained(node) ? `${node.state}, drained` : node.state,
    headroomOf(node) === null ? null : `${Math.max(0, (slots ?? 0) - node.in_flight)} of ${slots} slots free`,
    wait === null ? null : `first token ${duration(wait)}`,
    memory === null ? null : memoryWords(memory),
  ]
  return {
    id: node.node_id,
    name: node.name,
    mark: markOf(node),
    step: stepOf(node, colour),
    models: named(names),
    barModels: bar?.models ?? null,
    barTaken: bar?.taken ?? null,
    says: says.filter((words) => words !== null).join(', '),
  }
}

export interface Group {
  readonly key: string
  readonly title: string
  readonly nodes: readonly Node[]
}

/**
 * The largest group first, nodes by name: a tile keeps its place while its state moves. `owners`: names by id.
 */
export function groupsOf(
  nodes: readonly Node[],
  grouping: Grouping,
  owners: ReadonlyMap<string, string>,
): readonly Group[] {
  const keyOf = ({ node_class: of, customer_id: owner }: Node) => (grouping === 'class' ? of : (owner ?? ''))
  const titleOf = (key: string) =>
    grouping === 'class' ? key : key === '' ? 'Owner not shown' : (owners.get(key) ?? shortId(key))
  return [...Map.groupBy(nodes, keyOf)]
    .map(([key, of]) => ({
      key,
      title: titleOf(key),
      nodes: of.toSorted((a, b) => byWords(a.name, b.name) || byWords(a.node_id, b.node_id)),
    }))
    .toSorted((a, b) => b.nodes.length - a.nodes.length || byWords(a.title, b.title))
}
