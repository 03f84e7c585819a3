import { existsSync } from 'node:fs'
import { action } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import { fields } from '../../frame/table.ts'
import { serviceReport, serviceWords } from '../services/services.ts'
import { dataDirOption, withFolderErrors } from './node-keys.ts'

/** Who this node is, and what it witnesses: read from the agent's folder, whether or not the agent runs; and what the system says of its service. */
export const nodeStatus = action({
  about:
    'Print who this node is: its id, the fingerprint of its identity, its key as a witness, the logs that it witnesses, its payee, what it found wrong and whether its service runs',
  options: dataDirOption,
  run: async ({ options, json }, session) => {
    const [main, files, identities, enrolments, witnesses, memories, notes, payees, alarms] = await Promise.all([
      import('../../../node/main.ts'),
      import('../../../host/private-files.ts'),
      import('../../../node/membership/identity.ts'),
      import('../../../node/membership/enrollment.ts'),
      import('../../../node/witness/witness.ts'),
      import('../../../node/witness/witness-memory.ts'),
      import('../../../protocol/log/fork-proof.ts'),
      import('../../../node/membership/payee.ts'),
      import('../../../node/membership/alarms.ts'),
    ])
    const path = options['data-dir'] ?? main.nodeFolderPath(session.env)
    if (!existsSync(`${path}/${identities.identityFile}`)) {
      throw new CliFailure(`${path} has no node yet. Start the agent first, or name its --data-dir.`)
    }
    const status = withFolderErrors(() => {
      const folder = files.openPrivateFolder(path)
      const { key, fingerprint } = identities.loadIdentity(folder)
      const enrollment = enrolments.readEnrollment(folder)
      const logs = memories.openWitnessMemory(folder).logs()
      return {
        node_id: enrollment?.node_id ?? null,
        gateway_url: enrollment?.gateway_url ?? null,
        fingerprint,
        witness_key: witnesses.witnessKeyOf(key),
        payee: payees.readOwnPayee(folder)?.payee ?? null,
        alarms: alarms.readAlarms(folder),
        witnessed: logs.map(({ origin, keys, note }) => ({
          origin,
          keys: [...keys],
          size: note === null ? null : (notes.checkpointIn(note)?.size ?? null),
        })),
      }
    })
    const service = await serviceReport(session, 'agent')
    session.show(json, { ...status, service }, (shown) =>
      fields(session.terminal, [
        ['Node', shown.node_id ?? 'works for this computer alone'],
        ['Gateway', shown.gateway_url],
        ['Identity', shown.fingerprint],
        ['Witness key', shown.witness_key],
        ['Service', serviceWords(shown.service)],
        ['Log', shown.service?.logs ?? null],
        ['Payee', shown.payee ?? 'not signed here: the operator’s word stands'],
        ...shown.witnessed.map(
          ({ origin, size }) =>
            ['Witnesses', `${origin}, ${size === null ? 'nothing signed yet' : `${size} entries`}`] as const,
        ),
        ...shown.alarms.map(({ code, subject, at }) => ['ALARM', `${code} ${subject} at ${at}`] as const),
      ]),
    )
    return undefined
  },
})
