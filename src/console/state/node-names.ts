import type { NodeList } from '../../protocol/wire/admin/admin.ts'
import { useLoad } from './load.ts'
import { nodesPath } from './node-list.ts'

const everyMs = 30_000

/** What stands for names that are still read. */
export const namesToCome: ReadonlyMap<string, string> = new Map()

/** Names of nodes by id; an id where the name is not known. */
export function useNodeNames(): ReadonlyMap<string, string> {
  const [list] = useLoad<NodeList>(nodesPath, everyMs)
  if (list.kind === 'loading') return namesToCome
  return new Map(list.kind === 'ready' ? list.data.nodes.map(({ node_id, name }) => [node_id, name]) : [])
}
