import type { NodeList } from '../../protocol/wire/admin/admin.ts'
import { CliFailure } from './failure.ts'
import { type GatewayClient, segment } from './gateway-client.ts'

export const nodesPath = '/v1/admin/nodes'
export const oneNode = (id: string) => `${nodesPath}/${segment(id)}`

/** A name is looked up, and must be the name of one node alone. */
export async function nodeIdOf(gateway: GatewayClient, given: string | undefined): Promise<string> {
  const wanted = given ?? ''
  if (wanted.startsWith('node_')) return wanted
  const { nodes } = await gateway.admin<NodeList>({ path: `${nodesPath}?limit=1000` })
  const called = nodes.filter(({ name, state }) => name === wanted && state !== 'revoked')
  const [one, other] = called
  if (other !== undefined) {
    throw new CliFailure(
      `${called.length} nodes are called ${wanted}`,
      called.map(({ node_id }) => node_id),
    )
  }
  if (one === undefined) throw new CliFailure(`No node is called ${wanted}`, ['What there is: ./penstock nodes list'])
  return one.node_id
}
