import { commandsPath } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { checkValue } from '../../protocol/json/json-body.ts'
import { CommandSubmit, commandWaitSecondsMax } from '../../protocol/wire/admin/command.ts'
import { secondMs } from '../../time.ts'
import { readsTimed } from '../receipts/receipt-signer.ts'
import type { Commands } from './commands.ts'

/** `PUT`, `GET ?wait_s=` and `DELETE` of one command; the caller is checked before. */
export const nodeCommandRoute = `${commandsPath}/:command_id`
/** The gateway's own bound: 8 MiB of base64url for the envelope, and the JSON around it. */
export const commandBodyBytesMax = 10 * 1024 * 1024

const commandIdPattern = /^cmd_[0-9A-Z]{26}$/
const waitPattern = /^[0-9]{1,2}$/
const noStore = { 'cache-control': 'no-store' } as const

/** `body`: the parsed body of a `PUT`. Throws `Problem`. */
export async function answerCommand(commands: Commands, request: Request, body: unknown): Promise<Response> {
  const url = new URL(request.url)
  const commandId = url.pathname.slice(commandsPath.length + 1)
  if (!commandIdPattern.test(commandId)) throw new Problem('command_not_found')
  switch (request.method) {
    case 'PUT':
      commands.submit(commandId, checkValue(body, CommandSubmit), readsTimed(request.headers))
      return Response.json({ command_id: commandId, status: 'accepted' }, { status: 202, headers: noStore })
    case 'GET': {
      const waitMs = waitSeconds(url.searchParams.get('wait_s')) * secondMs
      return Response.json(await commands.state(commandId, waitMs, request.signal), { headers: noStore })
    }
    case 'DELETE':
      if (!commands.cancel(commandId)) throw new Problem('command_not_found')
      return new Response(null, { status: 204, headers: noStore })
    default:
      throw new Problem('method_not_allowed', { headers: { allow: 'PUT, GET, DELETE' } })
  }
}

function waitSeconds(text: string | null): number {
  if (text === null) return 0
  const seconds = waitPattern.test(text) ? Number(text) : Number.NaN
  if (seconds <= commandWaitSecondsMax) return seconds
  throw new Problem('invalid_parameter', {
    param: 'query.wait_s',
    detail: `wait_s must be a whole number up to ${commandWaitSecondsMax}`,
  })
}
