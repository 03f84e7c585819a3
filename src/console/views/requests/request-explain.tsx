import type { Explanation } from '../../../protocol/wire/admin/admin.ts'
import { amount, clockTime, duration, nothing } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Pill } from '../../parts/small.tsx'

const tones = { chosen: 'good', eligible: 'info', refused: 'plain' } as const
const resultTexts = { placed: 'A node was chosen', saturated: 'Every node was full', refused: 'No node may serve' }
const words = (text: string) => text.replaceAll('_', ' ')

interface Props {
  readonly explain: Explanation
  readonly nameOf: (nodeId: string) => string
}

/** Why this node, and why not the others, each time one was looked for. */
export const RequestExplain = ({ explain, nameOf }: Props) => (
  <section aria-labelledby="explain-title" class="panel">
    <h2 id="explain-title">Why there</h2>
    {explain.tries.map((tried, at) => (
      <Frame key={at} label={`Choice ${at + 1}`}>
        <table class="cards">
          <caption>
            {resultTexts[tried.result]} at {clockTime(tried.at)}
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
                First token
              </th>
              <th scope="col" class="number">
                Tokens/s
              </th>
            </tr>
          </thead>
          <tbody>
            {tried.routes.map((route) => (
              <tr key={route.model_profile_id}>
                <th scope="row">{nameOf(route.node_id)}</th>
                <td data-label="Verdict">
                  <Pill tone={tones[route.verdict]} text={route.verdict} />
                </td>
                <td data-label="Because">{words(route.reason)}</td>
                <td data-label="In flight" class="number">
                  {route.in_flight}
                  {route.slots_total !== null && ` of ${route.slots_total}`}
                </td>
                <td data-label="First token" class="number">
                  {duration(route.ttft_ewma_ms)}
                </td>
                <td data-label="Tokens/s" class="number">
                  {route.tokens_per_second === null ? nothing : amount(route.tokens_per_second)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Frame>
    ))}
  </section>
)
