import { textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { SpeechRequest } from '../../protocol/wire/inference/media.ts'
import { media } from './media.ts'
import type { InferenceRequest, Operation } from './operation.ts'
import { readRequestBody, refuseRouting } from './request-body.ts'

export const speech: Operation<SpeechRequest> = {
  ...media,
  name: 'speech',
  path: '/audio/speech',
  summary: 'Speak a text',
  description: 'OpenAI-compatible: the sound of a text, from one’s own nodes, passed on as it comes, at most 64 MiB.',
  schema: SpeechRequest,
  modality: 'audio',
  receiptKind: 'hosted_audio',
  idPrefix: 'speech-',
  read(text) {
    const body = readRequestBody(text, SpeechRequest)
    refuseRouting(body, false)
    return body
  },
  estimate({ input }) {
    const tokens = wholeTokens(textWeight(input))
    return { tokens, textTokens: 0 }
  },
  // Adds nothing to the client's request: some servers of sound know `stream`, but none its options.
  upstream(text, body) {
    const { stream_options }: InferenceRequest = body
    return upstreamBody(text, body, null, { stream_options }, '/v1/audio/speech')
  },
}
