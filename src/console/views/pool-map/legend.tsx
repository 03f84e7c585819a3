import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { count } from '../../parts/format.ts'
import {
  type Colour,
  colours,
  type Mark,
  markOf,
  markWords,
  memoryOf,
  noStepWords,
  stepOf,
  stepWords,
} from './tiles.ts'

interface KeyProps {
  /** Classes of a tile. */
  readonly kind: string
  readonly words: string
  readonly nodes: number
}

const Key = ({ kind, words, nodes }: KeyProps) => (
  <li>
    <span class={`tile ${kind}`} aria-hidden="true" /> {words} <b>{count(nodes)}</b>
  </li>
)

/** What colours, edges and bars mean, and how many nodes have them. */
export function Legend({ nodes, colour }: { nodes: readonly Node[]; colour: Colour }) {
  const bySteps = Map.groupBy(nodes, (node) => stepOf(node, colour))
  const byMarks = Map.groupBy(nodes, markOf)
  const edges: readonly Mark[] = ['draining', 'unready', 'away']
  return (
    <div class="map-legend">
      <ul aria-label={colours[colour]}>
        {stepWords(colour).map((words, step) => (
          <Key key={words} kind={`mark-ready step-${step}`} words={words} nodes={bySteps.get(step)?.length ?? 0} />
        ))}
        <Key kind="mark-ready step-none" words={noStepWords[colour]} nodes={bySteps.get(null)?.length ?? 0} />
      </ul>
      <ul aria-label="State">
        {edges.map((mark) => (
          <Key
            key={mark}
            kind={`mark-${mark} step-none`}
            words={markWords[mark]}
            nodes={byMarks.get(mark)?.length ?? 0}
          />
        ))}
        {nodes.some((node) => memoryOf(node) !== null) && (
          <li>
            <span class="tile mark-ready step-none" aria-hidden="true">
              <i style={{ '--models': '50%', '--taken': '75%' }} />
            </span>{' '}
            memory: models, then all that is taken
          </li>
        )}
      </ul>
    </div>
  )
}
