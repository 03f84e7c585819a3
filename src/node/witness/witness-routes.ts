import { headers } from '../../brand.ts'
import { readForkHeader } from '../../protocol/log/fork-proof.ts'
import { sizeMediaType } from '../../protocol/log/witnessing.ts'
import { encodeBase64 } from '../../protocol/signing/base64.ts'
import type { Witness, WitnessAnswer } from './witness.ts'

const statuses = { cosigned: 200, behind: 409, inconsistent: 422, malformed: 400, unsigned: 403, unknown: 404 } as const
const textType = 'text/plain; charset=utf-8'

const bodyOf = (answer: WitnessAnswer): string =>
  answer.kind === 'cosigned' ? answer.line : answer.kind === 'behind' ? `${answer.size}\n` : ''

/** The checkpoint that was signed before goes with a refusal: signed by the log itself, it is the proof of two logs. */
export function answerWitness(witness: Witness, request: Request, text: string): Response {
  const answer = witness.cosign(text, {
    keys: (request.headers.get(headers.logKeys) ?? '').split(' '),
    fork: readForkHeader(request.headers.get(headers.logFork) ?? ''),
  })
  const seen = 'seen' in answer && answer.seen !== null ? encodeBase64(new TextEncoder().encode(answer.seen)) : null
  return new Response(bodyOf(answer), {
    status: statuses[answer.kind],
    headers: {
      'content-type': answer.kind === 'behind' ? sizeMediaType : textType,
      ...(seen === null ? {} : { [headers.logSeen]: seen }),
    },
  })
}
