import { existsSync } from 'node:fs'
import { action } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import { fields } from '../../frame/table.ts'
import { dataDirOption, withFolderErrors } from './node-keys.ts'

/** Signed here, by the node's identity: no operator can say so for it. */
export const nodePayee = action({
  about:
    'Say where the earnings of this node go from now on, signed by the node, so that only the node can change it again',
  operands: [{ name: 'ADDRESS', about: 'An Ethereum address: 0x and 40 hexadecimal digits' }],
  options: dataDirOption,
  run: async ({ operands, options, json }, session) => {
    const [main, files, identities, enrolments, payees] = await Promise.all([
      import('../../../node/main.ts'),
      import('../../../host/private-files.ts'),
      import('../../../node/membership/identity.ts'),
      import('../../../node/membership/enrollment.ts'),
      import('../../../node/membership/payee.ts'),
    ])
    const path = options['data-dir'] ?? main.nodeFolderPath(session.env)
    const folder = existsSync(path) ? withFolderErrors(() => files.openPrivateFolder(path)) : null
    const enrollment = folder === null ? null : withFolderErrors(() => enrolments.readEnrollment(folder))
    if (folder === null || enrollment === null) throw new CliFailure(`${path} has no node that a gateway knows.`)
    const { key } = withFolderErrors(() => identities.loadIdentity(folder))
    const { gateway_url: gatewayUrl, node_id: nodeId } = enrollment
    const stated = await payees
      .statePayee({ folder, identity: key, gatewayUrl, nodeId, payee: operands[0] ?? '' })
      .catch((error: unknown) => {
        throw error instanceof enrolments.NodeStartError ? new CliFailure(error.message) : error
      })
    session.show(json, { node_id: nodeId, payee: stated.payee, signed_at: stated.signedAt }, (shown) =>
      fields(session.terminal, [
        ['Node', shown.node_id],
        ['Payee', shown.payee],
        ['Signed', shown.signed_at],
      ]),
    )
    return undefined
  },
})
