import type { NodeList } from '../../protocol/wire/admin/admin.ts'
import { useLoad } from './load.ts'

const everyMs = 30_000

/** Names of nodes by id; an id where the name is not known. */
export function useNodeNames(): ReadonlyMap<string, string> {
  const [list] = useLoad<NodeList>('/v1/admin/nodes?limit=1000', everyMs)
  return new Map(list.kind === 'ready' ? list.data.nodes.map(({ node_id, name }) => [node_id, name]) : [])
}
