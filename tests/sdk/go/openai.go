package main

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

var lookSchema = map[string]any{
	"type":       "object",
	"properties": map[string]any{"step": map[string]any{"type": "integer"}},
	"required":   []string{"step"},
}

func openaiClient(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func openaiTold() map[string]any {
	client := openaiClient(key)
	return map[string]any{
		"chat":             chatLoop(client, false),
		"chat_stream":      chatLoop(client, true),
		"responses":        responsesLoop(client, false),
		"responses_stream": responsesLoop(client, true),
		"wrong_key":        openaiError(openaiClient("nonsense"), "m"),
		"no_model":         openaiError(client, "nothing"),
		"abort":            openaiAbort(client),
	}
}

func chatLoop(client openai.Client, streamed bool) []any {
	params := openai.ChatCompletionNewParams{
		Model:    "m",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("begin")},
		Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "look", Parameters: lookSchema}),
		},
	}
	for turns := 1; ; turns++ {
		completion := openai.ChatCompletionAccumulator{}
		if streamed {
			stream := client.Chat.Completions.NewStreaming(ctx, params)
			for stream.Next() {
				completion.AddChunk(stream.Current())
			}
			must(stream.Err())
		} else {
			whole, err := client.Chat.Completions.New(ctx, params)
			must(err)
			completion.ChatCompletion = *whole
		}
		choice := completion.Choices[0]
		if choice.FinishReason != "tool_calls" {
			return []any{turns, choice.FinishReason, choice.Message.Content}
		}
		params.Messages = append(params.Messages, choice.Message.ToParam())
		for _, call := range choice.Message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage(look(call.Function.Arguments), call.ID))
		}
	}
}

func responsesLoop(client openai.Client, streamed bool) []any {
	input := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("begin", responses.EasyInputMessageRoleUser)}
	tool := responses.ToolParamOfFunction("look", lookSchema, false)
	for turns := 1; ; turns++ {
		params := responses.ResponseNewParams{
			Model: "m",
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: input},
			Tools: []responses.ToolUnionParam{tool},
		}
		var response *responses.Response
		if streamed {
			stream := client.Responses.NewStreaming(ctx, params)
			for stream.Next() {
				if completed, ok := stream.Current().AsAny().(responses.ResponseCompletedEvent); ok {
					response = &completed.Response
				}
			}
			must(stream.Err())
		} else {
			var err error
			response, err = client.Responses.New(ctx, params)
			must(err)
		}
		called := false
		for _, item := range response.Output {
			if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
				called = true
				output := responses.ResponseInputItemParamOfFunctionCallOutput(look(call.Arguments))
				output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
				input = append(input,
					responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name), output)
			}
		}
		if !called {
			return []any{turns, response.Status, response.OutputText()}
		}
	}
}

func openaiError(client openai.Client, model string) []any {
	_, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("begin")},
	})
	var refused *openai.Error
	if !errors.As(err, &refused) {
		return []any{"no error of the API"}
	}
	return []any{refused.StatusCode, refused.Code}
}

func openaiAbort(client openai.Client) bool {
	leaving, leave := context.WithCancel(ctx)
	stream := client.Chat.Completions.NewStreaming(leaving, openai.ChatCompletionNewParams{
		Model:    "slow",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("begin")},
	})
	began := stream.Next()
	leave()
	for stream.Next() {
	}
	return began && errors.Is(stream.Err(), context.Canceled)
}
