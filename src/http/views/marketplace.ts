import type { ModelEntry } from '../../actors/catalogue/model-entries.ts'
import { brand } from '../../brand.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { Marketplace } from '../../protocol/wire/money/pricing.ts'
import { serves } from './visible-models.ts'

type Item = Marketplace['data'][number]
type Modality = Item['input_modalities'][number]

const modalities: readonly Modality[] = ['text', 'image', 'file', 'audio']
const known = (given: readonly string[] | null): Modality[] => {
  const some = modalities.filter((modality) => given?.includes(modality) === true)
  return some.length === 0 ? ['text'] : some
}

/** `<owner>: <title>` (§9): the part of the id before its first slash owns it, or else this service. */
function marketplaceName(id: string, name: string | null): string {
  if (name?.includes(': ') === true) return name
  const cut = id.indexOf('/')
  const owner = cut > 0 ? id.slice(0, cut) : brand
  return `${owner}: ${name ?? (cut > 0 ? id.slice(cut + 1) : id)}`
}

const longest = (routes: readonly Route[], of: (route: Route) => number | null) =>
  Math.max(0, ...routes.map((route) => of(route) ?? 0))

function item(id: string, routes: readonly Route[], entry: ModelEntry | undefined, nowMs: number): Item {
  const usd = entry?.usdPrices ?? {}
  const contextLength = longest(routes, (route) => route.contextLength)
  return {
    id,
    name: marketplaceName(id, entry?.name ?? null),
    created: Math.min(...routes.map(({ knownAt }) => knownAt)),
    description: entry?.description ?? '',
    input_modalities: known(entry?.inputModalities ?? null),
    output_modalities: known(entry?.outputModalities ?? null),
    context_length: contextLength,
    max_output_length: entry?.maxOutputLength ?? contextLength,
    is_ready: routes.some((route) => serves(route, nowMs)),
    // These are the operator's list prices, which are never calculated from wei (§9).
    pricing: {
      prompt: usd.prompt ?? '0',
      completion: usd.completion ?? '0',
      image: usd.image ?? '0',
      request: usd.request ?? '0',
      input_cache_read: usd.input_cache_read ?? '0',
    },
  }
}

/** Models with a profile on a public node, ready or not, sorted by id. */
export function marketplaceView(table: RoutingTable, entries: readonly ModelEntry[], nowMs: number): Marketplace {
  const byModel = new Map<string, Route[]>()
  for (const route of table.routes) {
    if (route.visibility !== 'public') continue
    const seen = byModel.get(route.modelId)
    if (seen === undefined) byModel.set(route.modelId, [route])
    else seen.push(route)
  }
  const entryOf = new Map(entries.map((entry) => [entry.modelId, entry]))
  const ids = [...byModel.keys()].sort()
  return { data: ids.map((id) => item(id, byModel.get(id) ?? [], entryOf.get(id), nowMs)) }
}
