import { existsSync } from 'node:fs'
import { product } from '../../../brand.ts'
import type { LocalKey, LocalKeys } from '../../../node/access/local-keys.ts'
import { type Action, action, type OptionSpecs } from '../../frame/action.ts'
import { shownOnce, yesOption } from '../../frame/admin-options.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime, table } from '../../frame/table.ts'

export const dataDirOption = {
  'data-dir': { kind: 'text', value: 'DIR', about: `The agent's folder (default ~/.local/share/${product}/node)` },
} as const satisfies OptionSpecs

const namePattern = /^[^\u0000-\u001f\u007f]{1,64}$/

/** Opens the keys in the agent's folder, whether or not the agent runs. Throws `CliFailure`. */
async function keysOf(dir: string | undefined, session: Session): Promise<LocalKeys> {
  const [{ localKeys }, { nodeFolderPath }, { openPrivateFolder }] = await Promise.all([
    import('../../../node/access/local-keys.ts'),
    import('../../../node/main.ts'),
    import('../../../host/private-files.ts'),
  ])
  const path = dir ?? nodeFolderPath(session.env)
  if (!existsSync(path)) throw new CliFailure(`${path} does not exist. Start the agent first, or name its --data-dir.`)
  return withFolderErrors(() => localKeys(openPrivateFolder(path)))
}

/** Errors of the folder have a text for the operator. */
export function withFolderErrors<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof Error && error.name === 'PrivateFileError' ? new CliFailure(error.message) : error
  }
}

function described(session: Session, key: LocalKey): string {
  return fields(session.terminal, [
    ['Key', key.key_id],
    ['Name', key.name],
    ['Begins with', key.display_prefix],
    ['Made', shortTime(key.created_at)],
    ['Revoked', shortTime(key.revoked_at)],
  ])
}

const create = action({
  about: 'Make a key for a program on this computer or its network (X-SVC-API-Key) and print it, once',
  operands: [{ name: 'NAME', about: 'The name that the list shows' }],
  options: dataDirOption,
  run: async ({ operands, options, json }, session) => {
    const name = operands[0] ?? ''
    if (!namePattern.test(name)) throw new UsageFault('NAME must have 1 to 64 characters and no control characters')
    const keys = await keysOf(options['data-dir'], session)
    const made = withFolderErrors(() => keys.create(name))
    if (made === null) throw new CliFailure('The agent has the largest allowed number of live keys. Revoke one first.')
    session.show(
      json,
      made,
      (key) => described(session, key) + shownOnce(session.terminal, 'Local API key', key.api_key),
    )
    return undefined
  },
})

const list = action({
  about: 'List the keys of this agent, including revoked ones',
  options: dataDirOption,
  run: async ({ options, json }, session) => {
    const keys = await keysOf(options['data-dir'], session)
    session.show(json, { keys: withFolderErrors(() => keys.list()) }, (body) =>
      table(
        session.terminal,
        ['KEY', 'NAME', 'BEGINS WITH', 'STATE', 'MADE'],
        body.keys.map((key) => [
          key.key_id,
          key.name,
          key.display_prefix,
          key.revoked_at === null ? 'active' : 'revoked',
          shortTime(key.created_at),
        ]),
        'There are no keys.',
      ),
    )
    return undefined
  },
})

const revoke = action({
  about: 'Revoke a key of this agent at once',
  operands: [{ name: 'KEY_ID', about: 'The id (key_…), as `node keys list` shows it' }],
  options: { ...dataDirOption, ...yesOption },
  run: async ({ operands, options, json }, session) => {
    const id = operands[0] ?? ''
    const keys = await keysOf(options['data-dir'], session)
    if (!(await session.agreed(options.yes, `Revoke ${id}? The agent will refuse every program that uses it.`)))
      return 1
    const key = withFolderErrors(() => keys.revoke(id))
    if (key === null) throw new CliFailure(`This agent has no key ${id}.`)
    session.show(json, key, (body) => described(session, body))
    return undefined
  },
})

export const nodeKeys: Readonly<Record<string, Action>> = {
  'keys create': create,
  'keys list': list,
  'keys revoke': revoke,
}
