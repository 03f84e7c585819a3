import { type Static, Type } from '@sinclair/typebox'
import { modelName, models } from '../../dialects/values.ts'
import { ChatRouting } from './chat.ts'

const open = { additionalProperties: true } as const
/** A text to be spoken or drawn, UTF-16 units. */
const textUnitsMax = 65_536
const text = Type.String({ minLength: 1, maxLength: textUnitsMax })
const file = Type.String({ format: 'binary' })
const further = { models: Type.Optional(Type.Union([models(), Type.Null()])), svc: Type.Optional(ChatRouting) }

/** `POST /audio/speech`. Fields that are not listed pass through to the node. */
export const SpeechRequest = Type.Object(
  { model: modelName, input: text, voice: Type.Optional(Type.Unknown()), ...further },
  open,
)
export type SpeechRequest = Static<typeof SpeechRequest>

/** `POST /images/generations`. Fields that are not listed pass through to the node. */
export const ImageRequest = Type.Object(
  {
    model: modelName,
    prompt: text,
    n: Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: 10 }), Type.Null()])),
    ...further,
  },
  open,
)
export type ImageRequest = Static<typeof ImageRequest>

/** Forms, as far as the gateway reads them: all their fields pass through. */
export const AudioForm = Type.Object({ file, model: modelName }, open)
export const ImageForm = Type.Object({ image: file, model: modelName, prompt: Type.String() }, open)
