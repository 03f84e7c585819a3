import { existsSync } from 'node:fs'
import { Value } from '@sinclair/typebox/value'
import type { Session } from '../../frame/session.ts'
import { shortTime, table } from '../../frame/table.ts'

/**
 * The model servers of the agent on this computer, if it is that of the node, with the last lines of those that failed.
 * Only its own folder knows them: no gateway ever hears what a command writes. Empty on any other computer.
 */
export async function serversHere(session: Session, nodeId: string, dataDir: string | undefined): Promise<string> {
  const [{ nodeFolderPath }, { readEnrollment }, { serversFile, StoredServers }, { openPrivateFolder }] =
    await Promise.all([
      import('../../../node/main.ts'),
      import('../../../node/membership/enrollment.ts'),
      import('../../../node/servers/stored-servers.ts'),
      import('../../../host/private-files.ts'),
    ])
  const path = dataDir ?? nodeFolderPath(session.env)
  if (!existsSync(path)) return ''
  const folder = openPrivateFolder(path)
  if (readEnrollment(folder)?.node_id !== nodeId) return ''
  const stored = folder.read(serversFile)
  if (!Value.Check(StoredServers, stored)) return ''
  const rows = stored.servers.map(({ model, state, since, memory_mb }) => [model, state, shortTime(since), memory_mb])
  const failed = stored.servers.filter(({ last_lines: lines }) => lines.length > 0)
  const failures = failed.map(
    ({ model, last_lines: lines }) => `\n${model} wrote last:\n\n${lines.map((line) => `  ${line}\n`).join('')}`,
  )
  const fault = stored.fault === undefined ? '' : `\nmodels.json was edited and is not used: ${stored.fault}\n`
  return `${fault}\n${table(session.terminal, ['MODEL SERVER', 'STATE', 'SINCE', 'MIB'], rows, '')}${failures.join('')}`
}
