import type { Explanation } from '../../../protocol/wire/admin/explanation.ts'
import { action, type Verb } from '../../frame/action.ts'
import { rounded, shortTime, table } from '../../frame/table.ts'

type Route = Explanation['tries'][number]['routes'][number]
type Cost = Route['cost']

/** As told by its server; those learnt from first tokens where they are fewer, or where it tells none. */
export function slotsCell({ slots_total: reported, cost }: Pick<Route, 'slots_total' | 'cost'>): string {
  const slots = cost?.slots ?? reported
  if (slots === null) return 'not told'
  if (slots === reported) return String(reported)
  return reported === null ? `learnt ${slots}` : `learnt ${slots}, told ${reported}`
}

/** The parts in the order in which a request meets them. */
function costCells(cost: Cost): readonly (string | number | null)[] {
  if (cost === null) return [null, null, null, null, null, null, null]
  const cached = `${Math.round(cost.matched_share * 100)} %`
  const times = [cost.backlog_ms, cost.slot_wait_ms, cost.cold_ms, cost.own_ms, 0 - (cost.doubt_ms ?? 0), cost.total_ms]
  return [cached, ...times.map((ms) => rounded(ms))]
}

const listed = (names: readonly string[]) =>
  names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
const namedMax = 3

/** Why the others were not: those that could not serve it by their reason, most first. */
function othersText(routes: readonly Route[]): string {
  const others = routes.filter(({ verdict }) => verdict !== 'chosen')
  if (others.length === 0) return 'No other node has the model.'
  const eligible = others.filter(({ verdict }) => verdict === 'eligible').length
  const reasons = [
    ...Map.groupBy(
      others.filter(({ verdict }) => verdict === 'refused'),
      ({ reason }) => reason,
    ),
  ]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .slice(0, namedMax)
    .map(([reason, all]) => `${all.length} could not (${reason.replaceAll('_', ' ')})`)
  const waited =
    eligible === 0
      ? []
      : [`${eligible} could have served it and ${eligible === 1 ? 'was' : 'were'} expected to be slower`]
  return `Of the other ${others.length === 1 ? 'node' : `${others.length} nodes`}, ${listed([...waited, ...reasons])}.`
}

/** What happened and why, in two sentences, before anybody reads a table. */
export function inWords({ model: first, tries }: Pick<Explanation, 'model' | 'tries'>): string {
  const last = tries.at(-1)
  const model = last?.model ?? first
  if (last === undefined) return `The request for ${model} was answered without a choice of a node.`
  const chosen = last.routes.find(({ verdict }) => verdict === 'chosen')
  const again = tries.length === 1 ? '' : ` at try ${tries.length}`
  if (chosen === undefined) {
    const why = last.code === null ? last.result : last.code.replaceAll('_', ' ')
    return `No node took the request for ${model}${again}: ${why}. ${othersText(last.routes)}`
  }
  const expected =
    chosen.cost === null ? '' : `, where its first token was expected after ${rounded(chosen.cost.total_ms)} ms`
  return `The request for ${model} went to ${chosen.node_id}${again}${expected}. ${othersText(last.routes)}`
}

export const explain: Verb = {
  name: 'explain',
  about: 'Explain why a request went to its node',
  actions: action({
    about: 'Explain why a request went to its node and not to another. The gateway remembers its last 10 000 requests',
    operands: [{ name: 'REQUEST_ID', about: 'The x-request-id of a chat request (req_…)' }],
    options: {},
    run: async ({ operands, json }, session) => {
      const query = new URLSearchParams({ request_id: operands[0] ?? '' })
      const found = await session.gateway().admin<Explanation>({ path: `/v1/admin/explain?${query}` })
      session.show(json, found, (body) => {
        const tries = body.tries.map(({ at, model = body.model, result, code, routes }, index) => {
          const named = model === body.model ? '' : `${model} `
          const outcome = `${named}${code === null ? result : `${result} (${code})`}`
          return `\nTry ${index + 1}, ${shortTime(at)}: ${outcome}\n${table(
            session.terminal,
            [
              'NODE',
              'STATE',
              'VERDICT',
              'REASON',
              'OWN',
              'IN FLIGHT',
              'SLOTS',
              'BELIEVED TTFT MS',
              'BELIEVED TOK/S',
              'CACHED',
              'BACKLOG MS',
              'SLOT MS',
              'LOAD MS',
              'OWN MS',
              'DOUBT MS',
              'EXPECTED MS',
            ],
            routes.map((route) => [
              route.node_id,
              route.node_state,
              route.verdict,
              route.reason,
              route.own,
              route.in_flight,
              slotsCell(route),
              rounded(route.ttft_ewma_ms),
              rounded(route.tokens_per_second, 1),
              ...costCells(route.cost),
            ]),
            'No node serves this model.',
          )}`
        })
        return `${inWords(body)}\n\n${body.request_id}  ${body.model}\n${tries.join('')}`
      })
      return undefined
    },
  }),
}
