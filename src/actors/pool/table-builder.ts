import type { CustomerId } from '../../ids.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import { withoutLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import { type Catalogue, type RoutedNode, routesOf } from './nodes/routing-table.ts'

/** A node's routes, and all that they were made of. */
interface Kept {
  readonly facts: readonly unknown[]
  readonly routes: readonly Route[]
  /** Of all of them. */
  readonly names: ReadonlySet<string>
}

type Lists = ReadonlyMap<string, readonly Route[]>

const none: readonly string[] = []
/** The name by which Ollama's clients may mean the model: its own without `latest`. */
function shortNames({ runtimeKind, upstreamModelId }: Route): readonly string[] {
  const short = runtimeKind === 'ollama' ? withoutLatest(upstreamModelId) : null
  return short === null ? none : [short]
}

/** What a route is made of is replaced when it changes and never changed in place, but for the load, which is shared. */
function* factsOf({ row, state, heldUntilMs, identity, rest, runtimes }: RoutedNode): Generator<unknown> {
  yield row
  yield state
  yield heldUntilMs
  yield identity
  yield rest
  for (const { runtimeId, kind, slotsTotal, engineRank, profiles } of runtimes.values()) {
    yield runtimeId
    yield kind
    yield slotsTotal
    yield engineRank
    for (const profile of profiles.values()) {
      yield profile
      yield profile.model
      yield profile.answered
    }
  }
}

/** The same facts as `factsOf`, compared in place: ten thousand nodes are looked at for each table. */
function isAsBefore(facts: readonly unknown[], node: RoutedNode): boolean {
  if (facts[0] !== node.row || facts[1] !== node.state) return false
  if (facts[2] !== node.heldUntilMs || facts[3] !== node.identity) return false
  if (facts[4] !== node.rest) return false
  let at = 5
  for (const runtime of node.runtimes.values()) {
    if (facts[at++] !== runtime.runtimeId || facts[at++] !== runtime.kind) return false
    if (facts[at++] !== runtime.slotsTotal || facts[at++] !== runtime.engineRank) return false
    for (const profile of runtime.profiles.values()) {
      if (facts[at++] !== profile || facts[at++] !== profile.model || facts[at++] !== profile.answered) return false
    }
  }
  return at === facts.length
}

/**
 * Builds one immutable table after the other. What has not changed is taken from the last one: of ten thousand nodes a
 * poll changes one, and every other model keeps its very list.
 */
export class TableBuilder {
  private readonly kept = new Map<RoutedNode, Kept>()
  private catalogue: Catalogue | null = null
  private routes: readonly Route[] = []
  private byModel: Lists = new Map()
  private latest: Lists = new Map()
  private owners: ReadonlyMap<string, CustomerId> = new Map()

  /** The table of all nodes that are not revoked. Profiles whose model is gone stay: known, and not ready. */
  build(
    nodes: ReadonlyMap<string, RoutedNode>,
    catalogue: Catalogue,
    version: number,
    publishedAtMs: number,
  ): RoutingTable {
    const sameCatalogue = catalogue === this.catalogue
    if (!sameCatalogue) this.kept.clear()
    this.catalogue = catalogue
    const touched = new Set<string>()
    let changed = !sameCatalogue
    let members = !sameCatalogue
    for (const node of nodes.values()) {
      const known = this.kept.get(node)
      if (known !== undefined && isAsBefore(known.facts, node)) continue
      const kept = made(node, catalogue)
      this.kept.set(node, kept)
      changed = true
      members ||= known === undefined
      for (const names of [known?.names ?? [], kept.names]) for (const name of names) touched.add(name)
    }
    if (this.kept.size > nodes.size) {
      changed = true
      members = true
      this.forgetAllBut(nodes, touched)
    }
    if (changed) this.routes = routesIn(nodes.values(), this.kept)
    if (changed) {
      this.byModel = this.listsAfter(touched, sameCatalogue ? this.byModel : new Map(), ({ modelNames }) => modelNames)
      this.latest = this.listsAfter(touched, sameCatalogue ? this.latest : new Map(), shortNames)
    }
    if (members) this.owners = new Map([...nodes.values()].map(({ row }) => [row.nodeId, row.customerId]))
    const { routes, byModel, latest, owners } = this
    return { version, publishedAtMs, routes, byModel, latest, owners }
  }

  private forgetAllBut(nodes: ReadonlyMap<string, RoutedNode>, touched: Set<string>): void {
    for (const [node, { names }] of this.kept) {
      if (nodes.get(node.row.nodeId) === node) continue
      this.kept.delete(node)
      for (const name of names) touched.add(name)
    }
  }

  /** `before`, with the lists of the names that were touched made anew, in the order of the nodes. */
  private listsAfter(touched: ReadonlySet<string>, before: Lists, namesOf: (route: Route) => readonly string[]): Lists {
    const lists = new Map<string, Route[]>()
    for (const route of this.routes) {
      for (const name of namesOf(route)) {
        if (!touched.has(name)) continue
        const list = lists.get(name)
        if (list === undefined) lists.set(name, [route])
        // A model may name itself twice.
        else if (list.at(-1) !== route) list.push(route)
      }
    }
    const all = new Map(before)
    for (const name of touched) {
      const list = lists.get(name)
      if (list === undefined) all.delete(name)
      else all.set(name, list)
    }
    return all
  }
}

function made(node: RoutedNode, catalogue: Catalogue): Kept {
  const routes = [...routesOf(node, catalogue)]
  const names = new Set(routes.flatMap((route) => [...route.modelNames, ...shortNames(route)]))
  return { facts: [...factsOf(node)], routes, names }
}

/** In the order of the nodes. */
function routesIn(nodes: Iterable<RoutedNode>, kept: ReadonlyMap<RoutedNode, Kept>): readonly Route[] {
  const all: Route[] = []
  for (const node of nodes) for (const route of kept.get(node)?.routes ?? []) all.push(route)
  return all
}
