import type { NodeList } from '../../../protocol/wire/admin/admin.ts'
import { count } from '../../parts/format.ts'
import { merged } from '../../parts/node-facts.ts'
import { type RoomLeft, roomLeft } from '../../parts/room-left.ts'
import { liveNodes } from '../../state/live.ts'
import { useLoad } from '../../state/load.ts'
import { nodesPath } from '../../state/node-list.ts'
import { addressOf } from '../../state/place.ts'

/** The models with the least room: a view of few numbers. */
const shownMax = 6

const nodesText = (number: number) => `${count(number)} ${number === 1 ? 'node' : 'nodes'}`

function textOf({ free, slots, nodes, silent }: RoomLeft): string {
  const reports = silent === 1 ? 'that reports no slots' : 'that report no slots'
  if (nodes === 0) return `${nodesText(silent)} ${reports}`
  const known = `${count(free)} of ${count(slots)} slots free on ${nodesText(nodes)}`
  return silent === 0 ? known : `${known}, and ${nodesText(silent)} ${reports}`
}

/** What the pool can still take, by model. */
export function Room() {
  const [list] = useLoad<NodeList>(nodesPath)
  const live = liveNodes.value
  if (list.kind !== 'ready') return null
  const all = roomLeft(list.data.nodes.map((row) => merged(row, live.get(row.node_id))))
  if (all.length === 0) return null
  return (
    <section aria-labelledby="room-title">
      <h2 id="room-title">Room left</h2>
      <ul class="room">
        {all.slice(0, shownMax).map((room) => (
          <li key={room.model}>
            <strong>{room.model}</strong> {textOf(room)}
          </li>
        ))}
      </ul>
      {all.length > shownMax && (
        <p class="muted">
          {count(all.length - shownMax)} more models have at least as much.{' '}
          <a href={addressOf('models', null)}>Look at the models</a>
        </p>
      )}
    </section>
  )
}
