import { AudioForm } from '../../protocol/wire/inference/media.ts'
import { formOf, media } from './media.ts'
import type { Operation, SentForm } from './operation.ts'

const audio = {
  ...media,
  schema: AudioForm,
  modality: 'audio',
  receiptKind: 'hosted_audio',
} as const

export const transcriptions: Operation<SentForm> = {
  ...audio,
  ...formOf('/v1/audio/transcriptions'),
  name: 'transcriptions',
  path: '/audio/transcriptions',
  summary: 'Transcribe speech',
  description: 'OpenAI-compatible: a form with a file, on one’s own nodes, passed on as it comes, at most 25 MiB.',
  idPrefix: 'transcription-',
}

export const translations: Operation<SentForm> = {
  ...audio,
  ...formOf('/v1/audio/translations'),
  name: 'translations',
  path: '/audio/translations',
  summary: 'Translate speech into English',
  description: 'OpenAI-compatible: a form with a file, on one’s own nodes, passed on as it comes, at most 25 MiB.',
  idPrefix: 'translation-',
}
