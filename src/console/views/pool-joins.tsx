import type { WaitingJoin, WaitingJoinList } from '../../protocol/wire/nodes/join.ts'
import type { Choice } from '../actions/act.ts'
import { ActButton, ActButtons } from '../actions/act-button.tsx'
import { confirmJoin } from '../actions/join-acts.ts'
import { duration } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { useNow } from '../parts/small.tsx'
import { Failed } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'
import { mayAct } from '../state/session.ts'

const joinsEveryMs = 5_000

interface JoinsProps {
  /** To whom they can belong. */
  readonly owners: readonly Choice[]
  /** The owners have been read. */
  readonly able: boolean
}

function JoinRow({ join, owners, able }: JoinsProps & { readonly join: WaitingJoin }) {
  const left = Math.max(0, Date.parse(join.expires_at) - useNow())
  return (
    <tr data-row={join.join_id}>
      <th scope="row">{join.words}</th>
      <td data-label="Name">{join.name ?? <span class="muted">it tells none</span>}</td>
      <td data-label="Ends in">{duration(left)}</td>
      <td class="actions">
        <ActButton act={confirmJoin(join, owners)} on={join.words} able={able} />
        <ActButtons kind="join" row={join} on={join.words} />
      </td>
    </tr>
  )
}

/** Computers that ask to join, with their words; nothing where none does. */
export function Joins({ owners, able }: JoinsProps) {
  // A viewer's refusal would count as a denied call in the audit.
  const [list, again] = useLoad<WaitingJoinList>(mayAct('operator') ? '/v1/admin/joins' : null, joinsEveryMs)
  if (list.kind === 'failed') {
    return <Failed what="the computers that ask to join" why={list.why} requestId={list.requestId} again={again} />
  }
  const joins = list.kind === 'ready' ? list.data.joins : []
  if (joins.length === 0) return null
  return (
    <section aria-label="Computers that ask to join">
      <h2>Computers that ask to join</h2>
      <p class="muted">
        Each shows six words on its screen. Confirm only where you see the same six words on both, and refuse the
        others.
      </p>
      <Frame label="Computers that ask to join">
        <table class="cards">
          <caption class="visually-hidden">Computers that ask to join, the newest first</caption>
          <thead>
            <tr>
              <th scope="col">Words</th>
              <th scope="col">Name</th>
              <th scope="col">Ends in</th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {joins.map((join) => (
              <JoinRow key={join.join_id} join={join} owners={owners} able={able} />
            ))}
          </tbody>
        </table>
      </Frame>
    </section>
  )
}
