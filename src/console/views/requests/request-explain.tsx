import type { Explanation } from '../../../protocol/wire/admin/explanation.ts'
import { amount, clockTime, duration, nothing, percent } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Pill } from '../../parts/small.tsx'

const tones = { chosen: 'good', eligible: 'info', refused: 'plain' } as const
const resultTexts = {
  placed: 'A node was chosen',
  saturated: 'Every node was full',
  asleep: 'A sleeping node was woken',
  refused: 'No node may serve',
}
const words = (text: string) => text.replaceAll('_', ' ')

type Route = Explanation['tries'][number]['routes'][number]
type Cost = Route['cost']

/** Behind the calls in flight: of how many, and whether the server tells that or first tokens have shown it. */
function slotsText({ slots_total: reported, cost }: Pick<Route, 'slots_total' | 'cost'>): string {
  const slots = cost?.slots ?? reported
  if (slots === null) return ''
  return slots === reported ? ` of ${reported}` : ` of ${slots} learnt`
}

const wait = (ms: number) => (ms === 0 ? nothing : duration(ms))

/** What makes up the expected time to the first token, in the order in which a request meets it. */
const costColumns: readonly (readonly [string, (cost: NonNullable<Cost>) => string])[] = [
  ['Expected in its cache', (cost) => percent(cost.matched_share)],
  ['Backlog', (cost) => wait(cost.backlog_ms)],
  ['Slot', (cost) => wait(cost.slot_wait_ms)],
  ['Load', (cost) => wait(cost.cold_ms)],
  ['Wake-up', (cost) => wait(cost.wake_ms ?? 0)],
  ['Own prompt', (cost) => duration(cost.own_ms)],
  ['Doubted', (cost) => (cost.doubt_ms ? `− ${duration(cost.doubt_ms)}` : nothing)],
  ['Expected in all', (cost) => duration(cost.total_ms)],
]

interface Props {
  readonly explain: Explanation
  readonly nameOf: (nodeId: string) => string
}

/** Why this node, and why not the others, each time one was looked for. */
export const RequestExplain = ({ explain, nameOf }: Props) => (
  <section aria-labelledby="explain-title" class="panel">
    <h2 id="explain-title">Why this node</h2>
    {explain.tries.map((tried, at) => (
      <Frame key={at} label={`Choice ${at + 1}`}>
        <table class="cards">
          <caption>
            {resultTexts[tried.result]} at {clockTime(tried.at)}
            {tried.model !== undefined && tried.model !== explain.model && ` for ${tried.model}`}
            {tried.code !== null && `: ${words(tried.code)}`}
          </caption>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Verdict</th>
              <th scope="col">Because</th>
              <th scope="col" class="number">
                In flight
              </th>
              <th scope="col" class="number">
                Believed first token
              </th>
              <th scope="col" class="number">
                Believed tokens/s
              </th>
              {costColumns.map(([name]) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {tried.routes.map((route) => (
              <tr key={route.model_profile_id}>
                <th scope="row" class="unbroken">
                  {nameOf(route.node_id)}
                </th>
                <td data-label="Verdict">
                  <Pill tone={tones[route.verdict]} text={route.verdict} />
                </td>
                <td data-label="Because">{words(route.reason)}</td>
                <td data-label="In flight" class="number">
                  {route.in_flight}
                  {slotsText(route)}
                </td>
                <td data-label="Believed first token" class="number">
                  {duration(route.ttft_ewma_ms)}
                </td>
                <td data-label="Believed tokens/s" class="number">
                  {route.tokens_per_second === null ? nothing : amount(route.tokens_per_second)}
                </td>
                {costColumns.map(([name, text]) => (
                  <td key={name} data-label={name} class="number">
                    {route.cost === null ? nothing : text(route.cost)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Frame>
    ))}
  </section>
)
