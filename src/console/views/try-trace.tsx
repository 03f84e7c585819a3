import type { Explanation } from '../../protocol/wire/admin/explanation.ts'
import type { RequestStory } from '../../protocol/wire/admin/requests.ts'
import { amount, count, duration, nothing } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Id, Named, Pill } from '../parts/small.tsx'
import { Part } from '../parts/states.tsx'
import { amountText } from '../parts/wei.tsx'
import type { Answered } from '../state/conversation.ts'
import { useLoad } from '../state/load.ts'
import { useNodeNames } from '../state/node-names.ts'

/** What became of one request: how long, by whom, why on that node. */
export function Trace({ answered, label = 'Trace of the answer' }: { answered: Answered; label?: string }) {
  const { metadata, requestId } = answered
  const mixture = metadata?.mixture
  const names = useNodeNames()
  return (
    <section class="trace" aria-label={label}>
      <dl class="facts">
        {requestId !== null && (
          <div>
            <dt>Request</dt>
            <dd>
              <Id id={requestId} />{' '}
              {mixture !== undefined && <a href={`#statecharts/mixture/${requestId}`}>Statechart</a>}
            </dd>
          </div>
        )}
        {metadata !== null && (
          <>
            <div>
              <dt>First token</dt>
              <dd>{duration(metadata.ttft_ms)}</dd>
            </div>
            <div>
              <dt>Whole</dt>
              <dd>{duration(metadata.latency_ms)}</dd>
            </div>
            {requestId !== null && <Measured requestId={requestId} />}
            <div>
              <dt>Runtime</dt>
              <dd>{metadata.runtime_kind}</dd>
            </div>
            <div>
              <dt>Receipt</dt>
              <dd>
                <Id id={metadata.receipt_hash} />
              </dd>
            </div>
          </>
        )}
      </dl>
      {mixture !== undefined && (
        <Frame label="Sub-calls of the mixture">
          <table class="cards">
            <caption>
              Mixture by {mixture.strategy} {mixture.degraded && <Pill tone="warn" text="degraded" />}
            </caption>
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col">Role</th>
                <th scope="col">Status</th>
                <th scope="col">Node</th>
                <th scope="col" class="number">
                  Tokens
                </th>
              </tr>
            </thead>
            <tbody>
              {mixture.experts.map((call, at) => (
                <tr key={at}>
                  <th scope="row">{call.model}</th>
                  <td data-label="Role">{call.role}</td>
                  <td data-label="Status">
                    <Pill tone={call.status === 'ok' ? 'good' : 'bad'} text={call.status} />
                  </td>
                  <td data-label="Node">{call.node_id === '' ? 'none' : <Named id={call.node_id} names={names} />}</td>
                  <td data-label="Tokens" class="number">
                    {call.usage.total_tokens}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Frame>
      )}
      {requestId !== null && <Why requestId={requestId} />}
    </section>
  )
}

/** As its record has it, which is written when the answer is over. */
function Measured({ requestId }: { requestId: string }) {
  const [loaded] = useLoad<RequestStory>(`/v1/admin/requests/${requestId}`)
  if (loaded.kind !== 'ready') return null
  const { completion_tokens: tokens, duration_ms: whole, ttft_ms: first, cost_wei: cost } = loaded.data.request
  const seconds = first === null ? 0 : (whole - first) / 1_000
  return (
    <>
      <div>
        <dt>Rate</dt>
        <dd>{seconds > 0 && tokens !== null && tokens > 1 ? `${amount((tokens - 1) / seconds)} tok/s` : nothing}</dd>
      </div>
      <div>
        <dt>Tokens out</dt>
        <dd>{tokens === null ? nothing : count(tokens)}</dd>
      </div>
      <div>
        <dt>Cost</dt>
        <dd>{cost === null || cost === '0' ? 'free' : amountText(cost)}</dd>
      </div>
    </>
  )
}

function Why({ requestId }: { requestId: string }) {
  const names = useNodeNames()
  const [explanation, again] = useLoad<Explanation>(`/v1/admin/explain?request_id=${requestId}`)
  return (
    <details>
      <summary>Why this node</summary>
      <Part what="the reason for the choice" loaded={explanation} again={again}>
        {({ tries }) => (
          <Frame label="Routes that were looked at">
            <table class="cards">
              <thead>
                <tr>
                  <th scope="col">Node</th>
                  <th scope="col">Verdict</th>
                  <th scope="col">Reason</th>
                  <th scope="col" class="number">
                    In flight
                  </th>
                  <th scope="col" class="number">
                    Believed first token
                  </th>
                </tr>
              </thead>
              <tbody>
                {tries.flatMap(({ at, routes }) =>
                  routes.map((route) => (
                    <tr key={`${at} ${route.model_profile_id}`}>
                      <th scope="row">
                        <Named id={route.node_id} names={names} />
                      </th>
                      <td data-label="Verdict">
                        <Pill tone={route.verdict === 'chosen' ? 'good' : 'plain'} text={route.verdict} />
                      </td>
                      <td data-label="Reason">{route.reason.replaceAll('_', ' ')}</td>
                      <td data-label="In flight" class="number">
                        {route.in_flight}
                      </td>
                      <td data-label="Believed first token" class="number">
                        {duration(route.ttft_ewma_ms)}
                      </td>
                    </tr>
                  )),
                )}
              </tbody>
            </table>
          </Frame>
        )}
      </Part>
    </details>
  )
}
