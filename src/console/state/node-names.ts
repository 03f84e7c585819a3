import type { NodeList } from '../../protocol/wire/admin/admin.ts'
import { useLoad } from './load.ts'
import { nodesPath } from './node-list.ts'

const everyMs = 30_000

/** Names of nodes by id; an id where the name is not known. */
export function useNodeNames(): ReadonlyMap<string, string> {
  const [list] = useLoad<NodeList>(nodesPath, everyMs)
  return new Map(list.kind === 'ready' ? list.data.nodes.map(({ node_id, name }) => [node_id, name]) : [])
}
