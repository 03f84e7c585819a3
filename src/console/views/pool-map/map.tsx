import { Component } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { count } from '../../parts/format.ts'
import { addressOf } from '../../state/place.ts'
import { Legend } from './legend.tsx'
import { columnsOf, groupLeastPx, type TileSize, tileGapPx, tileSizeOf } from './tile-size.ts'
import { type Colour, type Group, type Grouping, groupsOf, type Tile, tileOf } from './tiles.ts'
import { besides } from './walk.ts'

interface TileProps extends Tile {
  readonly words: boolean
  /** The one tile at which Tab stops. */
  readonly stop: boolean
}

/** One node. A tile that would look and read as before is not drawn again. */
class TileLink extends Component<TileProps> {
  override shouldComponentUpdate(next: TileProps): boolean {
    const names = Object.keys(next) as (keyof TileProps)[]
    return names.some((name) => next[name] !== this.props[name])
  }

  override render({ id, name, mark, step, models, barModels, barTaken, says, words, stop }: TileProps) {
    return (
      <a
        class={`tile ${words ? 'card ' : ''}mark-${mark} step-${step ?? 'none'}`}
        href={addressOf('pool', id)}
        data-node={id}
        tabIndex={stop ? 0 : -1}
        title={says}
        aria-label={says}
      >
        {words && <b>{name}</b>} {words && <small>{models === '' ? '\u00a0' : models}</small>}
        {barTaken !== null && (
          <i style={{ '--models': `${barModels ?? 0}%`, '--taken': `${barTaken}%` }} aria-hidden="true" />
        )}
      </a>
    )
  }
}

/** What a map has at least, however little is left of the screen, px. */
const leastHeightPx = 400
/** Below the map, px. */
const footPx = 24

/** The largest tiles that leave the map on one screen. */
function useTileSize(groups: readonly Group[]) {
  const box = useRef<HTMLElement>(null)
  const [[width, height], setRoom] = useState<readonly [number, number]>([innerWidth, innerHeight])
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    const look = () => {
      const { top, width: wide } = element.getBoundingClientRect()
      const room = [Math.floor(wide), Math.floor(innerHeight - top - scrollY - footPx)] as const
      setRoom((before) => (before[0] === room[0] && before[1] === room[1] ? before : room))
    }
    look()
    const watching = new ResizeObserver(look)
    watching.observe(element)
    addEventListener('resize', look)
    return () => {
      watching.disconnect()
      removeEventListener('resize', look)
    }
  }, [])
  const size = tileSizeOf(
    groups.map(({ nodes }) => nodes.length),
    width,
    Math.max(leastHeightPx, height),
  )
  return { box, width, size }
}

interface GroupProps {
  readonly group: Group
  readonly colour: Colour
  readonly size: TileSize
  /** Of the map, px. */
  readonly widthPx: number
  readonly stop: string | undefined
}

function GroupTiles({ group: { title, nodes }, colour, size, widthPx, stop }: GroupProps) {
  const columns = columnsOf(nodes.length, widthPx, size)
  const wide = columns * (size.width + tileGapPx) - tileGapPx
  return (
    <div class="tile-group" style={{ width: `${Math.max(wide, groupLeastPx)}px` }}>
      <h2 title={title}>
        {title} <small>{count(nodes.length)}</small>
      </h2>
      <div class="tiles">
        {nodes.map((node) => (
          <TileLink key={node.node_id} {...tileOf(node, colour)} words={size.words} stop={node.node_id === stop} />
        ))}
      </div>
    </div>
  )
}

interface MapProps {
  readonly nodes: readonly Node[]
  readonly colour: Colour
  readonly grouping: Grouping
  /** Names by id. */
  readonly owners: ReadonlyMap<string, string>
  /** The node at which the keyboard was last. */
  readonly at: string | null
  readonly walk: (nodeId: string) => void
}

/** The pool at one look: a tile per node, with one stop of the keyboard; arrows go on from there. */
export function PoolMap({ nodes, colour, grouping, owners, at, walk }: MapProps) {
  const groups = groupsOf(nodes, grouping, owners)
  const { box, width, size } = useTileSize(groups)
  const stop = nodes.some(({ node_id }) => node_id === at) ? at : groups[0]?.nodes[0]?.node_id
  const go = (event: KeyboardEvent) => {
    const tiles = [...(box.current?.querySelectorAll<HTMLElement>('.tile') ?? [])]
    const { activeElement: here } = document
    const from = here instanceof HTMLElement ? tiles.indexOf(here) : -1
    const to = from < 0 || event.altKey || event.ctrlKey || event.metaKey ? null : besides(tiles, from, event.key)
    if (to === null) return
    event.preventDefault()
    tiles[to]?.focus()
  }
  const came = (event: FocusEvent) => {
    const { node } = event.target instanceof HTMLElement ? event.target.dataset : {}
    if (node !== undefined) walk(node)
  }
  return (
    <>
      <Legend nodes={nodes} colour={colour} />
      <section
        class="pool-map"
        ref={box}
        aria-label="Map of the nodes: arrow keys go from one to the next, Enter opens it"
        style={{ '--tile-width': `${size.width}px`, '--tile-height': `${size.height}px` }}
        onKeyDown={go}
        onFocusIn={came}
      >
        {groups.map((group) => (
          <GroupTiles
            key={group.key}
            group={group}
            colour={colour}
            size={size}
            widthPx={width}
            stop={stop ?? undefined}
          />
        ))}
      </section>
    </>
  )
}
