import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.core.http.StreamResponse;
import com.openai.errors.NotFoundException;
import com.openai.errors.OpenAIServiceException;
import com.openai.errors.UnauthorizedException;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.helpers.ResponseAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.responses.EasyInputMessage;
import com.openai.models.responses.FunctionTool;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseOutputItem;
import com.openai.models.responses.ResponseStreamEvent;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Tool loops of three turns with openai-java, by chat and by Responses. What came is printed as JSON. */
public final class Loops {
    private static final ObjectMapper json = new ObjectMapper();
    private static final Map<String, JsonValue> look = Map.of(
            "type", JsonValue.from("object"),
            "properties", JsonValue.from(Map.of("step", Map.of("type", "integer"))),
            "required", JsonValue.from(List.of("step")));

    private static OpenAIClient client(String key) {
        return OpenAIOkHttpClient.builder()
                .baseUrl(System.getenv("URL") + "/v1")
                .apiKey(key)
                .maxRetries(0)
                .build();
    }

    /** The last turn repeats it, so that a lost result is seen. */
    private static String result(String arguments) throws Exception {
        return "result " + json.readTree(arguments).get("step").asInt();
    }

    private static ChatCompletion chatTurn(OpenAIClient client, ChatCompletionCreateParams params, boolean streamed) {
        if (!streamed) return client.chat().completions().create(params);
        ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
        try (StreamResponse<ChatCompletionChunk> stream = client.chat().completions().createStreaming(params)) {
            stream.stream().forEach(accumulator::accumulate);
        }
        return accumulator.chatCompletion();
    }

    private static Object chatLoop(OpenAIClient client, boolean streamed) throws Exception {
        FunctionDefinition function = FunctionDefinition.builder()
                .name("look")
                .parameters(FunctionParameters.builder().putAllAdditionalProperties(look).build())
                .build();
        ChatCompletionCreateParams.Builder params = ChatCompletionCreateParams.builder()
                .model("m")
                .addUserMessage("begin")
                .addTool(ChatCompletionFunctionTool.builder().function(function).build());
        if (streamed) params.streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build());
        for (int turns = 1; ; turns++) {
            ChatCompletion.Choice choice = chatTurn(client, params.build(), streamed).choices().get(0);
            var calls = choice.message().toolCalls().orElse(List.of());
            if (calls.isEmpty()) {
                return List.of(turns, choice.finishReason().asString(), choice.message().content().orElse(""));
            }
            params.addMessage(choice.message());
            for (var call : calls) {
                var called = call.function().get();
                params.addMessage(ChatCompletionToolMessageParam.builder()
                        .toolCallId(called.id())
                        .content(result(called.function().arguments()))
                        .build());
            }
        }
    }

    /** Without `stream_options` the last chunk has the usage beside its choice, which the helper leaves out. */
    private static String withoutOptions(OpenAIClient client) {
        try {
            return chatTurn(client, begin("m"), true).choices().get(0).finishReason().asString();
        } catch (IllegalStateException thrown) {
            return thrown.getClass().getSimpleName();
        }
    }

    private static Response response(OpenAIClient client, ResponseCreateParams params, boolean streamed) {
        if (!streamed) return client.responses().create(params);
        ResponseAccumulator accumulator = ResponseAccumulator.create();
        try (StreamResponse<ResponseStreamEvent> stream = client.responses().createStreaming(params)) {
            stream.stream().forEach(accumulator::accumulate);
        }
        return accumulator.response();
    }

    private static String text(Response response) {
        StringBuilder text = new StringBuilder();
        for (ResponseOutputItem item : response.output()) {
            item.message().ifPresent(message -> message.content()
                    .forEach(part -> part.outputText().ifPresent(output -> text.append(output.text()))));
        }
        return text.toString();
    }

    private static Object responsesLoop(OpenAIClient client, boolean streamed) throws Exception {
        FunctionTool tool = FunctionTool.builder()
                .name("look")
                .parameters(FunctionTool.Parameters.builder().putAllAdditionalProperties(look).build())
                .strict(false)
                .build();
        List<ResponseInputItem> input = new ArrayList<>();
        input.add(ResponseInputItem.ofEasyInputMessage(
                EasyInputMessage.builder().role(EasyInputMessage.Role.USER).content("begin").build()));
        for (int turns = 1; ; turns++) {
            ResponseCreateParams params =
                    ResponseCreateParams.builder().model("m").inputOfResponse(input).addTool(tool).build();
            Response response = response(client, params, streamed);
            int before = input.size();
            for (ResponseOutputItem item : response.output()) {
                if (!item.isFunctionCall()) continue;
                var call = item.asFunctionCall();
                input.add(ResponseInputItem.ofFunctionCall(call));
                input.add(ResponseInputItem.ofFunctionCallOutput(ResponseInputItem.FunctionCallOutput.builder()
                        .callId(call.callId())
                        .output(result(call.arguments()))
                        .build()));
            }
            if (input.size() == before) return List.of(turns, response.status().get().asString(), text(response));
        }
    }

    private static ChatCompletionCreateParams begin(String model) {
        return ChatCompletionCreateParams.builder().model(model).addUserMessage("begin").build();
    }

    private static Object refusal(OpenAIClient client, String model, Class<? extends OpenAIServiceException> kind) {
        try {
            client.chat().completions().create(begin(model));
        } catch (OpenAIServiceException refused) {
            return List.of(kind.isInstance(refused), refused.statusCode(), refused.code().orElse(""));
        }
        return List.of("nothing was thrown");
    }

    /** Closes a stream that has begun. */
    private static boolean abort(OpenAIClient client) {
        try (StreamResponse<ChatCompletionChunk> stream = client.chat().completions().createStreaming(begin("slow"))) {
            return stream.stream().iterator().hasNext();
        }
    }

    public static void main(String[] given) throws Exception {
        OpenAIClient client = client(System.getenv("KEY"));
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("chat", chatLoop(client, false));
        told.put("chat_stream", chatLoop(client, true));
        told.put("chat_stream_helper_without_include_usage", withoutOptions(client));
        told.put("responses", responsesLoop(client, false));
        told.put("responses_stream", responsesLoop(client, true));
        told.put("wrong_key", refusal(client(System.getenv("KEY") + "x"), "m", UnauthorizedException.class));
        told.put("no_model", refusal(client, "nothing", NotFoundException.class));
        told.put("abort", abort(client));
        System.out.println(json.writeValueAsString(told));
        System.exit(0);
    }
}
