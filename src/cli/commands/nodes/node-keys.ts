import { existsSync } from 'node:fs'
import { product } from '../../../brand.ts'
import type { LocalKey, LocalKeys } from '../../../node/access/local-keys.ts'
import { type Action, action, type OptionSpecs } from '../../frame/action.ts'
import { shownOnce, yesOption } from '../../frame/admin-options.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime, table } from '../../frame/table.ts'

export const dataDirOption = {
  'data-dir': { kind: 'text', value: 'DIR', about: `Its keys (default ~/.local/share/${product}/node)` },
} as const satisfies OptionSpecs

const namePattern = /^[^\u0000-\u001f\u007f]{1,64}$/

/** Works on the agent's folder, with or without an agent that runs. Throws `CliFailure`. */
async function keysOf(dir: string | undefined, session: Session): Promise<LocalKeys> {
  const [{ localKeys }, { nodeFolderPath }, { openPrivateFolder }] = await Promise.all([
    import('../../../node/access/local-keys.ts'),
    import('../../../node/main.ts'),
    import('../../../host/private-files.ts'),
  ])
  const path = dir ?? nodeFolderPath(session.env)
  if (!existsSync(path)) throw new CliFailure(`${path} is not there: start the agent first, or name its --data-dir.`)
  return told(() => localKeys(openPrivateFolder(path)))
}

/** Faults of the folder are written for the operator. */
function told<T>(work: () => T): T {
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
  about: 'Make a key for a program on this computer or its network (X-SVC-API-Key); prints it once',
  operands: [{ name: 'NAME', about: 'What it is called in the list' }],
  options: dataDirOption,
  run: async ({ operands, options, json }, session) => {
    const name = operands[0] ?? ''
    if (!namePattern.test(name)) throw new UsageFault('NAME has 1 to 64 characters and no control characters')
    const keys = await keysOf(options['data-dir'], session)
    const made = told(() => keys.create(name))
    if (made === null) throw new CliFailure('There are as many live keys as allowed: revoke one first.')
    session.show(
      json,
      made,
      (key) => described(session, key) + shownOnce(session.terminal, 'Local API key', key.api_key),
    )
    return undefined
  },
})

const list = action({
  about: 'List the keys of this agent, revoked ones too',
  options: dataDirOption,
  run: async ({ options, json }, session) => {
    const keys = await keysOf(options['data-dir'], session)
    session.show(json, { keys: told(() => keys.list()) }, (body) =>
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
        'No keys.',
      ),
    )
    return undefined
  },
})

const revoke = action({
  about: 'End a key of this agent now',
  operands: [{ name: 'KEY_ID', about: 'key_…, as in node keys list' }],
  options: { ...dataDirOption, ...yesOption },
  run: async ({ operands, options, json }, session) => {
    const id = operands[0] ?? ''
    const keys = await keysOf(options['data-dir'], session)
    if (!(await session.agreed(options.yes, `Revoke ${id}? Whoever uses it is refused from now on.`))) return 1
    const key = told(() => keys.revoke(id))
    if (key === null) throw new CliFailure(`${id} is no key of this agent.`)
    session.show(json, key, (body) => described(session, body))
    return undefined
  },
})

export const nodeKeys: Readonly<Record<string, Action>> = {
  'keys create': create,
  'keys list': list,
  'keys revoke': revoke,
}
