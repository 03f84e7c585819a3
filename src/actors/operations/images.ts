import { textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { ImageForm, ImageRequest } from '../../protocol/wire/inference/media.ts'
import { formOf, media } from './media.ts'
import type { Operation, SentForm } from './operation.ts'
import { readRequestBody, refuseFields, refuseRouting } from './request-body.ts'

const images = { ...media, modality: 'image', receiptKind: 'hosted_image' } as const

export const imageGenerations: Operation<ImageRequest> = {
  ...images,
  name: 'image_generations',
  path: '/images/generations',
  summary: 'Draw pictures',
  description:
    'OpenAI-compatible: pictures for a prompt, from one’s own nodes, passed on as they come, at most 64 MiB.',
  schema: ImageRequest,
  idPrefix: 'image-',
  read(text) {
    const body = readRequestBody(text, ImageRequest)
    refuseRouting(body, false)
    refuseFields(body, ['stream'], 'pictures come whole')
    return body
  },
  estimate({ prompt }) {
    const tokens = wholeTokens(textWeight(prompt))
    return { tokens, textTokens: 0 }
  },
  upstream: (text, body) => upstreamBody(text, body, null, null, '/v1/images/generations'),
}

export const imageEdits: Operation<SentForm> = {
  ...images,
  ...formOf('/v1/images/edits', ['stream', 'partial_images']),
  name: 'image_edits',
  path: '/images/edits',
  summary: 'Edit a picture',
  description: 'OpenAI-compatible: a form with pictures, on one’s own nodes, passed on as it comes, at most 25 MiB.',
  schema: ImageForm,
  idPrefix: 'image-',
}
